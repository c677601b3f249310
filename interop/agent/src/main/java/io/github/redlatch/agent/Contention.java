package io.github.redlatch.agent;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;

/**
 * Threads that contend for one lock and prove, by what they do inside, whether it excludes.
 *
 * <p>A section is: take the lock, INCR the inside key, GET the counter, perhaps hold, SET the counter to what was read
 * plus one, DECR the inside key, release. The counter loses an update, and the inside key reads more than 1, when two
 * owners are inside at once, in whichever process and language the other one runs.
 *
 * <p>A shared section, one under a read lock, may have company of its own sort: it only reads the counter, before and after the hold,
 * and overlaps when the counter has changed or when the beside key, the inside key of the other sort, is not 0.
 */
final class Contention {
    private final long id;
    private final String counterKey;
    private final String insideKey;
    /** Counts those who must not be inside beside these, or null when there is nobody of another sort. */
    private final String besideKey;
    private final boolean shared;
    private final int threads;
    private final long sections;
    private final long leaseMs;
    private final int holdMs;
    private final int pauseMs;
    /** Where events go, or null when nobody wants them. */
    private final Replies events;

    // All below are guarded by this object.
    private final List<Thread> waiting = new ArrayList<>();
    private boolean stopped;
    private long done;
    private long overlaps;
    private long maxInside;
    private long errors;
    private JsonObject firstError;

    Contention(long id, Request request, Replies events) {
        this.id = id;
        this.events = events;
        counterKey = request.text("counterKey");
        insideKey = request.text("insideKey", counterKey + ":inside");
        besideKey = request.text("besideKey", null);
        shared = request.flag("shared");
        threads = request.number("threads", 1, 1, 512);
        // Only a contention with events can go on until it is stopped; a hammer must say when it ends.
        sections = request.number("sections", events == null ? 1 : 0, events == null ? 1 : 0, Integer.MAX_VALUE);
        leaseMs = request.number("leaseMs", -1);
        holdMs = request.number("holdMs", 0, 0, 600_000);
        pauseMs = request.number("pauseMs", 0, 0, 600_000);
    }

    /** Runs all threads to their end and returns what they saw. Called once. */
    JsonObject run(RedissonClient client, RLock lock) throws InterruptedException {
        long started = System.nanoTime();
        List<Thread> workers = new ArrayList<>();
        for (int number = 1; number <= threads; number++) {
            int thread = number;
            Thread worker = new Thread(() -> work(client, lock, thread), "agent-contender-" + id + "-" + thread);
            worker.setDaemon(true);
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        return result(System.nanoTime() - started);
    }

    /** Ends the contention: a thread inside finishes its section, one that waits for the lock gives up. */
    synchronized void stop() {
        stopped = true;
        waiting.forEach(Thread::interrupt);
        notifyAll();
    }

    private void work(RedissonClient client, RLock lock, int thread) {
        try {
            for (long section = 1; goesOn(section); section++) {
                event("waiting", thread, section, Replies.nowUs());
                if (!acquire(lock)) {
                    return;
                }
                event("acquired", thread, section, Replies.nowUs());
                long left;
                try {
                    inside(client);
                } finally {
                    // Stamped before the release is sent: from here on another owner may be inside.
                    left = Replies.nowUs();
                    lock.unlock();
                }
                event("released", thread, section, left);
                finished();
                pause();
            }
        } catch (Exception e) {
            failed(e);
        }
    }

    private synchronized boolean goesOn(long section) {
        return !stopped && (sections == 0 || section <= sections);
    }

    /** Takes the lock; false when the contention was stopped meanwhile. Only this step can be interrupted by stop. */
    private boolean acquire(RLock lock) throws InterruptedException {
        Thread self = Thread.currentThread();
        synchronized (this) {
            if (stopped) {
                return false;
            }
            waiting.add(self);
        }
        boolean taken = false;
        try {
            if (leaseMs > 0) {
                lock.lockInterruptibly(leaseMs, TimeUnit.MILLISECONDS);
            } else {
                lock.lockInterruptibly();
            }
            taken = true;
        } catch (InterruptedException e) {
            if (!isStopped()) {
                throw e;
            }
        } catch (RedisException e) {
            // How Redisson reports an interrupt that reached it while a command was on its way.
            if (!isStopped() || !(e.getCause() instanceof InterruptedException)) {
                throw e;
            }
        } finally {
            synchronized (this) {
                waiting.remove(self);
                // A stop that came as the lock was granted must not break the section that follows.
                Thread.interrupted();
            }
        }
        return taken;
    }

    private void inside(RedissonClient client) throws InterruptedException {
        RAtomicLong marker = client.getAtomicLong(insideKey);
        RBucket<String> counter = client.getBucket(counterKey, StringCodec.INSTANCE);
        long inside = marker.incrementAndGet();
        try {
            // After the own mark is set: of two who enter at once, one sees the other.
            boolean company = !shared && inside > 1 || besideKey != null && client.getAtomicLong(besideKey).get() > 0;
            long read = number(counter.get());
            if (holdMs > 0) {
                Thread.sleep(holdMs);
            }
            if (!shared) {
                counter.set(Long.toString(read + 1));
            } else if (number(counter.get()) != read) {
                company = true;
            }
            entered(inside, company);
        } finally {
            marker.decrementAndGet();
        }
    }

    private static long number(String text) {
        return text == null ? 0 : Long.parseLong(text);
    }

    private synchronized void entered(long inside, boolean company) {
        maxInside = Math.max(maxInside, inside);
        if (company) {
            overlaps++;
        }
    }

    private synchronized void finished() {
        done++;
    }

    private synchronized void failed(Exception e) {
        errors++;
        if (firstError == null) {
            firstError = Failures.describe(e);
        }
    }

    private synchronized boolean isStopped() {
        return stopped;
    }

    /** Sleeps between two sections, but no longer than until stop. */
    private synchronized void pause() throws InterruptedException {
        long end = System.nanoTime() + pauseMs * 1_000_000L;
        for (long left = end - System.nanoTime(); left > 0 && !stopped; left = end - System.nanoTime()) {
            wait(left / 1_000_000 + 1);
        }
    }

    private void event(String name, int thread, long section, long atUs) {
        if (events == null) {
            return;
        }
        JsonObject event = new JsonObject();
        event.addProperty("event", name);
        event.addProperty("id", id);
        event.addProperty("thread", thread);
        event.addProperty("section", section);
        event.addProperty("atUs", atUs);
        events.write(event);
    }

    private synchronized JsonObject result(long elapsedNs) {
        JsonObject value = new JsonObject();
        value.addProperty("sections", done);
        value.addProperty("overlaps", overlaps);
        value.addProperty("maxInside", maxInside);
        value.addProperty("errors", errors);
        value.add("firstError", firstError);
        value.addProperty("elapsedMs", elapsedNs / 1_000_000);
        return value;
    }
}
