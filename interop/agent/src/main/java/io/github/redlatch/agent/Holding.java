package io.github.redlatch.agent;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Threads that take many plain locks without a lease and keep them, each thread its share, as an application does that
 * holds a lock for each thing that it works on. They stay until the client is closed or the agent ends, and notice when
 * somebody interrupts them, which is how a JVM tells a thread that blocks.
 */
final class Holding {
    private final String client;
    private final String name;
    private final int count;
    private final int threads;
    private final List<RLock> held = new ArrayList<>();
    private final CountDownLatch taking;
    private final CountDownLatch over = new CountDownLatch(1);

    // Both guarded by this object.
    private int told;
    private JsonObject firstError;

    Holding(Request request) {
        client = request.text("client");
        name = request.text("name");
        count = request.number("count", 1, 1, 10_000_000);
        threads = request.number("threads", 1, 1, 512);
        taking = new CountDownLatch(threads);
    }

    boolean isOf(String other) {
        return client.equals(other);
    }

    /** Takes all locks; heapBytes is what the heap has grown by, garbage apart. Called once. */
    JsonObject take(RedissonClient redisson) throws InterruptedException {
        long heap = liveHeap();
        long started = System.nanoTime();
        for (int first = 0; first < threads; first++) {
            int share = first;
            Thread holder = new Thread(() -> hold(redisson, share), "agent-holder-" + share);
            holder.setDaemon(true);
            holder.start();
        }
        taking.await();
        long elapsedMs = (System.nanoTime() - started) / 1_000_000;
        JsonObject value = new JsonObject();
        synchronized (this) {
            value.addProperty("taken", held.size());
            value.add("firstError", firstError);
        }
        value.addProperty("elapsedMs", elapsedMs);
        value.addProperty("heapBytes", liveHeap() - heap);
        return value;
    }

    /** How many locks are held by threads that were interrupted since. */
    synchronized int told() {
        return told;
    }

    /** Lets the threads go. What they hold is not released. */
    void end() {
        over.countDown();
    }

    private void hold(RedissonClient redisson, int share) {
        List<RLock> own = new ArrayList<>();
        try {
            for (int i = share; i < count; i += threads) {
                RLock lock = redisson.getLock(name + ":" + i);
                lock.lock();
                own.add(lock);
            }
        } catch (RuntimeException e) {
            failed(e);
        }
        synchronized (this) {
            held.addAll(own);
        }
        taking.countDown();
        try {
            over.await();
        } catch (InterruptedException e) {
            synchronized (this) {
                told += own.size();
            }
        }
    }

    private synchronized void failed(RuntimeException e) {
        if (firstError == null) {
            firstError = Failures.describe(e);
        }
    }

    private static long liveHeap() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
