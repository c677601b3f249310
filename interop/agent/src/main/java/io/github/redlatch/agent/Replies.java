package io.github.redlatch.agent;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/**
 * Writes the agent's answers and events, one JSON object per line. Safe for use by every thread: a line is written and
 * flushed whole under this object's monitor.
 */
final class Replies {
    private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private final OutputStream out;

    Replies(OutputStream out) {
        this.out = out;
    }

    /** Work that has a result: null, a Boolean, a number, a String or a JsonElement. */
    interface Work {
        Object run() throws Exception;
    }

    /**
     * Runs the work and answers request {@code id} with its value or its error. The stamps are the wall clock in
     * microseconds, so that a driver on the same machine can compare them with its own and with other agents';
     * elapsedUs is from the monotonic clock.
     */
    void answer(long id, Work work) {
        JsonObject reply = new JsonObject();
        reply.addProperty("id", id);
        long startUs = nowUs();
        long startNs = System.nanoTime();
        JsonElement value = JsonNull.INSTANCE;
        Throwable failure = null;
        try {
            value = json(work.run());
        } catch (Throwable e) {
            failure = e;
        }
        long elapsedNs = System.nanoTime() - startNs;
        reply.addProperty("ok", failure == null);
        if (failure == null) {
            reply.add("value", value);
        } else {
            reply.add("error", Failures.describe(failure));
        }
        reply.addProperty("startUs", startUs);
        reply.addProperty("endUs", nowUs());
        reply.addProperty("elapsedUs", elapsedNs / 1000);
        write(reply);
    }

    /** Answers a line that could not be read as a request; without an id nobody waits for it, but it must not vanish. */
    void malformed(Throwable failure) {
        JsonObject reply = new JsonObject();
        reply.add("id", JsonNull.INSTANCE);
        reply.addProperty("ok", false);
        reply.add("error", Failures.describe(failure));
        write(reply);
    }

    /** The first line of every agent: it can be spoken to, and this is what it runs on. */
    void ready() {
        JsonObject event = new JsonObject();
        event.addProperty("event", "ready");
        event.addProperty("redisson", Compat.redissonVersion());
        event.addProperty("java", System.getProperty("java.version"));
        event.addProperty("pid", ProcessHandle.current().pid());
        write(event);
    }

    synchronized void write(JsonObject line) {
        try {
            out.write((gson.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            // Nobody reads any more. The end of stdin, which follows, ends the agent.
            System.err.println("cannot write a reply: " + e.getMessage());
        }
    }

    static long nowUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static JsonElement json(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof JsonElement) {
            return (JsonElement) value;
        }
        if (value instanceof Boolean) {
            return new JsonPrimitive((Boolean) value);
        }
        if (value instanceof Number) {
            return new JsonPrimitive((Number) value);
        }
        return new JsonPrimitive(value.toString());
    }
}
