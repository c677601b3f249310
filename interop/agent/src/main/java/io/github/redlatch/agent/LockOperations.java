package io.github.redlatch.agent;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RExpirable;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RObject;

/**
 * The operations on a lock, by the name that a request gives. Each runs on the caller's thread and blocks it as the
 * Redisson method of that name does. An absent waitMs or leaseMs selects the overload without that argument.
 */
final class LockOperations {
    private interface Operation {
        Object run(RLock lock, Request request) throws Exception;
    }

    private static final TimeUnit MS = TimeUnit.MILLISECONDS;
    private static final Class<?>[] NONE = {};
    private static final Class<?>[] ONE_TIME = {long.class, TimeUnit.class};
    private static final Class<?>[] TWO_TIMES = {long.class, long.class, TimeUnit.class};
    private static final Map<String, Operation> OPERATIONS = new HashMap<>();

    static {
        OPERATIONS.put("lock", LockOperations::lock);
        OPERATIONS.put("lockInterruptibly", LockOperations::lockInterruptibly);
        OPERATIONS.put("tryLock", LockOperations::tryLock);
        OPERATIONS.put("unlock", LockOperations::unlock);
        OPERATIONS.put("forceUnlock", (lock, request) -> lock.forceUnlock());
        OPERATIONS.put("isLocked", (lock, request) -> lock.isLocked());
        OPERATIONS.put("isHeldByCurrentThread", (lock, request) -> lock.isHeldByCurrentThread());
        OPERATIONS.put("isHeldByThread", (lock, request) -> lock.isHeldByThread(request.number("threadId")));
        OPERATIONS.put("getHoldCount", (lock, request) -> lock.getHoldCount());
        OPERATIONS.put("remainTimeToLive", (lock, request) -> lock.remainTimeToLive());
        OPERATIONS.put("getName", (lock, request) -> lock.getName());
        OPERATIONS.put("lockAsync", LockOperations::lockAsync);
        OPERATIONS.put("tryLockAsync", LockOperations::tryLockAsync);
        OPERATIONS.put("unlockAsync", LockOperations::unlockAsync);
        OPERATIONS.put("lockAndGetToken", LockOperations::lockAndGetToken);
        OPERATIONS.put("tryLockAndGetToken", LockOperations::tryLockAndGetToken);
        OPERATIONS.put("getToken", (lock, request) -> Compat.fenced(lock, "getToken", NONE));
        OPERATIONS.put("delete", (lock, request) -> redisObject(lock, RObject.class, "delete").delete());
        OPERATIONS.put("expire", LockOperations::expire);
    }

    private LockOperations() {
    }

    static boolean has(String name) {
        return OPERATIONS.containsKey(name);
    }

    static Object run(String name, RLock lock, Request request) throws Exception {
        return OPERATIONS.get(name).run(lock, request);
    }

    private static Object lock(RLock lock, Request request) {
        if (request.has("leaseMs")) {
            lock.lock(request.number("leaseMs"), MS);
        } else {
            lock.lock();
        }
        return null;
    }

    private static Object lockInterruptibly(RLock lock, Request request) throws InterruptedException {
        if (request.has("leaseMs")) {
            lock.lockInterruptibly(request.number("leaseMs"), MS);
        } else {
            lock.lockInterruptibly();
        }
        return null;
    }

    private static Object tryLock(RLock lock, Request request) throws InterruptedException {
        if (request.has("leaseMs")) {
            return lock.tryLock(request.number("waitMs", 0), request.number("leaseMs"), MS);
        }
        return request.has("waitMs") ? lock.tryLock(request.number("waitMs"), MS) : lock.tryLock();
    }

    private static Object unlock(RLock lock, Request request) {
        lock.unlock();
        return null;
    }

    private static Object lockAsync(RLock lock, Request request) throws Exception {
        long threadId = request.number("threadId");
        return await(request.has("leaseMs")
                ? lock.lockAsync(request.number("leaseMs"), MS, threadId)
                : lock.lockAsync(threadId));
    }

    private static Object tryLockAsync(RLock lock, Request request) throws Exception {
        long threadId = request.number("threadId");
        if (request.has("waitMs") || request.has("leaseMs")) {
            long lease = request.number("leaseMs", -1);
            return await(lock.tryLockAsync(request.number("waitMs", 0), lease, MS, threadId));
        }
        return await(lock.tryLockAsync(threadId));
    }

    private static Object unlockAsync(RLock lock, Request request) throws Exception {
        return await(lock.unlockAsync(request.number("threadId")));
    }

    /** Waits for the future on this thread. An interrupt cancels the future, since nobody else will look at it. */
    private static Object await(RFuture<?> future) throws Exception {
        try {
            return future.get();
        } catch (InterruptedException e) {
            future.cancel(true);
            throw e;
        }
    }

    private static Object lockAndGetToken(RLock lock, Request request) throws Exception {
        if (request.has("leaseMs")) {
            return Compat.fenced(lock, "lockAndGetToken", ONE_TIME, request.number("leaseMs"), MS);
        }
        return Compat.fenced(lock, "lockAndGetToken", NONE);
    }

    private static Object tryLockAndGetToken(RLock lock, Request request) throws Exception {
        String method = "tryLockAndGetToken";
        if (request.has("leaseMs")) {
            long wait = request.number("waitMs", 0);
            return Compat.fenced(lock, method, TWO_TIMES, wait, request.number("leaseMs"), MS);
        }
        if (request.has("waitMs")) {
            return Compat.fenced(lock, method, ONE_TIME, request.number("waitMs"), MS);
        }
        return Compat.fenced(lock, method, NONE);
    }

    @SuppressWarnings("deprecation") // expire(Duration) came with 3.17; this overload is in every release.
    private static Object expire(RLock lock, Request request) {
        return redisObject(lock, RExpirable.class, "expire").expire(request.number("leaseMs"), MS);
    }

    /** The lock as the Redis object that it is; the composite kinds are none. */
    private static <T> T redisObject(RLock lock, Class<T> type, String operation) {
        if (!type.isInstance(lock)) {
            throw new UnsupportedOperationException(
                    operation + " needs a lock with a key of its own, not a " + lock.getClass().getSimpleName());
        }
        return type.cast(lock);
    }
}
