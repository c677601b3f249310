package io.github.redlatch.agent;

import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Hands each request to the thread that it names. {@link #handle} itself never blocks on Redis, so a request that
 * interrupts or stops another one is always read.
 */
final class Agent {
    private final Replies replies;
    private final Locks locks = new Locks();
    private final Map<String, NamedThread> threads = new ConcurrentHashMap<>();
    private final Map<Long, Contention> contentions = new ConcurrentHashMap<>();
    private final Map<Long, Holding> holdings = new ConcurrentHashMap<>();
    /** For what blocks but belongs to no named thread: opening and closing clients, waiting for many threads' work. */
    private final ExecutorService background = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work, "agent-background");
        thread.setDaemon(true);
        return thread;
    });

    Agent(Replies replies) {
        this.replies = replies;
    }

    void handle(String line) {
        Request request;
        long id;
        try {
            request = Request.parse(line);
            id = request.id();
        } catch (BadRequest e) {
            replies.malformed(e);
            return;
        }
        try {
            dispatch(id, request);
        } catch (RuntimeException e) {
            replies.answer(id, () -> {
                throw e;
            });
        }
    }

    private void dispatch(long id, Request request) {
        String operation = request.operation();
        switch (operation) {
            case "open":
                background.execute(() -> replies.answer(id, () -> open(request)));
                return;
            case "close":
                background.execute(() -> replies.answer(id, () -> close(request)));
                return;
            case "thread":
                replies.answer(id, () -> thread(request).id());
                return;
            case "asleep":
                replies.answer(id, () -> thread(request).asleep());
                return;
            case "interrupt":
                replies.answer(id, () -> interrupt(request));
                return;
            case "hammer":
                contend(id, request, false);
                return;
            case "contend":
                contend(id, request, true);
                return;
            case "stop":
                replies.answer(id, () -> stop(request));
                return;
            case "holdMany":
                background.execute(() -> replies.answer(id, () -> holdMany(id, request)));
                return;
            case "told":
                replies.answer(id, () -> told(request));
                return;
            default:
                lockOperation(id, operation, request);
        }
    }

    private void lockOperation(long id, String operation, Request request) {
        if (!LockOperations.has(operation)) {
            throw new BadRequest("unknown operation \"" + operation + "\"; README.md lists them");
        }
        thread(request).submit(id, () -> replies.answer(id, () -> {
            RLock lock = locks.get(LockSpec.read(request), request.flag("fresh"));
            return LockOperations.run(operation, lock, request);
        }));
    }

    private NamedThread thread(Request request) {
        return threads.computeIfAbsent(request.text("thread"), NamedThread::new);
    }

    private Object open(Request request) throws Exception {
        RedissonClient client = locks.open(request.text("client"), request.text("yaml"), request.text("namePrefix", ""));
        JsonObject value = new JsonObject();
        value.addProperty("clientId", client.getId());
        value.addProperty("redisson", Compat.redissonVersion());
        value.addProperty("java", System.getProperty("java.version"));
        return value;
    }

    private Object close(Request request) {
        String client = request.text("client");
        locks.close(client);
        holdings.values().removeIf(holding -> {
            if (holding.isOf(client)) {
                holding.end();
            }
            return holding.isOf(client);
        });
        return null;
    }

    private Object interrupt(Request request) {
        NamedThread thread = threads.get(request.text("thread"));
        if (thread == null) {
            return false;
        }
        return request.has("target") ? thread.interrupt(request.number("target")) : thread.interrupt();
    }

    private void contend(long id, Request request, boolean streaming) {
        // Registered before it runs, so that a stop sent right behind it finds it.
        Contention contention = new Contention(id, request, streaming ? replies : null);
        contentions.put(id, contention);
        background.execute(() -> replies.answer(id, () -> {
            try {
                LockSpec spec = LockSpec.read(request);
                return contention.run(locks.client(spec.client()), locks.get(spec, request.flag("fresh")));
            } finally {
                contentions.remove(id);
            }
        }));
    }

    private Object stop(Request request) {
        Contention contention = contentions.get(request.number("target"));
        if (contention == null) {
            return false;
        }
        contention.stop();
        return true;
    }

    private Object holdMany(long id, Request request) throws InterruptedException {
        Holding holding = new Holding(request);
        RedissonClient client = locks.client(request.text("client"));
        holdings.put(id, holding);
        return holding.take(client);
    }

    private Object told(Request request) {
        Holding holding = holdings.get(request.number("target"));
        if (holding == null) {
            throw new BadRequest("no holding has the id of \"target\"; its client may be closed");
        }
        return holding.told();
    }

    /**
     * Shuts all clients down, at the same time and within a few seconds. What named threads wait for is not waited for:
     * they are daemons and end with the JVM.
     */
    void close() {
        contentions.values().forEach(Contention::stop);
        for (String name : locks.names()) {
            background.execute(() -> locks.close(name));
        }
        background.shutdown();
        try {
            background.awaitTermination(4, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
