package io.github.redlatch.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Reaches by reflection what some release in use does not have, or has elsewhere, so that one source compiles against
 * them all. What the release lacks ends in UnsupportedOperationException, which the driver sees as "unsupported".
 */
final class Compat {
    private Compat() {
    }

    static String redissonVersion() {
        String path = "/META-INF/maven/org.redisson/redisson/pom.properties";
        try (InputStream in = Redisson.class.getResourceAsStream(path)) {
            if (in == null) {
                return "unknown";
            }
            Properties properties = new Properties();
            properties.load(in);
            return properties.getProperty("version", "unknown");
        } catch (IOException e) {
            return "unknown";
        }
    }

    /** A lock of the client whose factory method takes the name alone: getFencedLock (3.19), getNonReentrantLock (4.4). */
    static RLock lock(RedissonClient client, String factory, String name) throws Exception {
        return (RLock) call(RedissonClient.class, client, factory, new Class<?>[] {String.class}, name);
    }

    /** getMultiLock(name, values), since 3.38. */
    static RLock groupedLock(RedissonClient client, String name, List<String> values) throws Exception {
        Class<?>[] types = {String.class, java.util.Collection.class};
        return (RLock) call(RedissonClient.class, client, "getMultiLock", types, name, new ArrayList<Object>(values));
    }

    static RLock spinLock(RedissonClient client, String name, BackOff backOff) throws Exception {
        if (backOff == null) {
            return lock(client, "getSpinLock", name);
        }
        Class<?> type = type("org.redisson.api.LockOptions$BackOff");
        Class<?>[] types = {String.class, type};
        return (RLock) call(RedissonClient.class, client, "getSpinLock", types, name, redissonBackOff(backOff));
    }

    /** Calls a method of RFencedLock, whose class does not exist before 3.19. */
    static Object fenced(RLock lock, String method, Class<?>[] types, Object... args) throws Exception {
        Class<?> api = type("org.redisson.api.RFencedLock");
        if (!api.isInstance(lock)) {
            throw new UnsupportedOperationException(method + " needs a fenced lock, this one is a "
                    + lock.getClass().getSimpleName());
        }
        return call(api, lock, method, types, args);
    }

    /**
     * Puts a prefix before every name that this configuration's client uses. NameMapper moved from org.redisson.api to
     * org.redisson.config, and its setter from the server configuration to Config, in 4.0.
     */
    static void prefixNames(Config config, String prefix) throws Exception {
        Class<?> type = firstType("org.redisson.config.NameMapper", "org.redisson.api.NameMapper");
        Object mapper = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, args) -> {
            switch (method.getName()) {
                case "map":
                    return args[0] == null ? null : prefix + args[0];
                case "unmap":
                    return args[0] == null ? null : args[0].toString().substring(prefix.length());
                case "hashCode":
                    return prefix.hashCode();
                case "equals":
                    return self == args[0];
                default:
                    return "prefix " + prefix;
            }
        });
        for (Object holder : new Object[] {config, serverConfig(config)}) {
            Method setter = find(holder.getClass(), "setNameMapper", type);
            if (setter != null) {
                setter.invoke(holder, mapper);
                return;
            }
        }
        throw new UnsupportedOperationException(missing("setNameMapper"));
    }

    private static Object serverConfig(Config config) {
        if (config.isClusterConfig()) {
            return config.useClusterServers();
        }
        if (config.isSentinelConfig()) {
            return config.useSentinelServers();
        }
        return config.useSingleServer();
    }

    private static Object redissonBackOff(BackOff backOff) throws Exception {
        boolean constant = backOff.isConstant();
        String name = "org.redisson.api.LockOptions$" + (constant ? "ConstantBackOff" : "ExponentialBackOff");
        Class<?> type = type(name);
        Object made = type.getConstructor().newInstance();
        Class<?>[] millis = {long.class};
        if (constant) {
            call(type, made, "delay", millis, backOff.initialMs());
            return made;
        }
        call(type, made, "initialDelay", millis, backOff.initialMs());
        call(type, made, "maxDelay", millis, backOff.maxMs());
        call(type, made, "multiplier", new Class<?>[] {int.class}, backOff.multiplier());
        return made;
    }

    private static Object call(Class<?> api, Object target, String name, Class<?>[] types, Object... args)
            throws Exception {
        Method method = find(api, name, types);
        if (method == null) {
            throw new UnsupportedOperationException(missing(api.getSimpleName() + "." + name));
        }
        try {
            return method.invoke(target, args);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exception) {
                throw (Exception) e.getCause();
            }
            throw e;
        }
    }

    private static Method find(Class<?> api, String name, Class<?>... types) {
        try {
            return api.getMethod(name, types);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    private static Class<?> type(String name) {
        return firstType(name);
    }

    private static Class<?> firstType(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new UnsupportedOperationException(missing(names[names.length - 1]));
    }

    private static String missing(String what) {
        return "Redisson " + redissonVersion() + " has no " + what;
    }
}
