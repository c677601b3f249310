package io.github.redlatch.agent;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The open clients by name, and the lock objects made from them.
 *
 * <p>One lock object is kept for each {@link LockSpec}, as an application keeps one in a field. That matters: Redisson
 * remembers on the object with which lease it last took the lock, and re-arms that one after a partial release.
 *
 * <p>All methods may be called by any thread; the maps are guarded by this object's monitor, which is never held
 * while Redis is spoken to.
 */
final class Locks {
    private final Map<String, RedissonClient> clients = new HashMap<>();
    private final Map<LockSpec, RLock> kept = new HashMap<>();

    /** Opens a client and keeps it under its name. Blocks until Redisson is connected, or throws what Redisson threw. */
    RedissonClient open(String name, String yaml, String namePrefix) throws Exception {
        synchronized (this) {
            if (clients.containsKey(name)) {
                throw new BadRequest("client \"" + name + "\" is open already; close it or choose another name");
            }
        }
        Config config = Config.fromYAML(yaml);
        if (!namePrefix.isEmpty()) {
            Compat.prefixNames(config, namePrefix);
        }
        RedissonClient client = Redisson.create(config);
        if (register(name, client)) {
            return client;
        }
        shutdown(client);
        throw new BadRequest("client \"" + name + "\" was opened twice at once");
    }

    /** Shuts the client down. Locks that it holds stay in Redis until they expire, as when a JVM goes away. */
    void close(String name) {
        RedissonClient client;
        synchronized (this) {
            client = client(name);
            clients.remove(name);
            kept.keySet().removeIf(spec -> spec.uses(name));
        }
        shutdown(client);
    }

    synchronized String[] names() {
        return clients.keySet().toArray(new String[0]);
    }

    synchronized RedissonClient client(String name) {
        RedissonClient client = clients.get(name);
        if (client == null) {
            throw new BadRequest("no client \"" + name + "\" is open; open it first");
        }
        return client;
    }

    /** The kept object of this lock; with fresh a new one, which replaces the kept one and its members' objects. */
    synchronized RLock get(LockSpec spec, boolean fresh) throws Exception {
        RLock lock = kept.get(spec);
        if (lock == null || fresh) {
            lock = make(spec, fresh);
            kept.put(spec, lock);
        }
        return lock;
    }

    private synchronized boolean register(String name, RedissonClient client) {
        return clients.putIfAbsent(name, client) == null;
    }

    private RLock make(LockSpec spec, boolean fresh) throws Exception {
        RedissonClient client = client(spec.client());
        switch (spec.kind()) {
            case "plain":
                return client.getLock(spec.name());
            case "fair":
                return client.getFairLock(spec.name());
            case "read":
                return client.getReadWriteLock(spec.name()).readLock();
            case "write":
                return client.getReadWriteLock(spec.name()).writeLock();
            case "fenced":
                return Compat.lock(client, "getFencedLock", spec.name());
            case "spin":
                return Compat.spinLock(client, spec.name(), spec.backOff());
            case "nonreentrant":
                return Compat.lock(client, "getNonReentrantLock", spec.name());
            case "nonreentrant-fair":
                return Compat.lock(client, "getNonReentrantFairLock", spec.name());
            case "grouped":
                return Compat.groupedLock(client, spec.name(), spec.values());
            case "multi":
                return client.getMultiLock(members(spec, fresh));
            case "red":
                return new RedissonRedLock(members(spec, fresh));
            default:
                throw new BadRequest("unknown lock kind \"" + spec.kind() + "\"; there are plain, fair, read, write, "
                        + "fenced, spin, nonreentrant, nonreentrant-fair, multi, red and grouped");
        }
    }

    private RLock[] members(LockSpec spec, boolean fresh) throws Exception {
        RLock[] members = new RLock[spec.members().size()];
        for (int i = 0; i < members.length; i++) {
            members[i] = get(spec.members().get(i), fresh);
        }
        return members;
    }

    private static void shutdown(RedissonClient client) {
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }
}
