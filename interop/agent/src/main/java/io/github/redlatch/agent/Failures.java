package io.github.redlatch.agent;

import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.lang.reflect.InvocationTargetException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisTimeoutException;

/** Turns what was thrown into the error object of an answer. */
final class Failures {
    private Failures() {
    }

    static JsonObject describe(Throwable thrown) {
        Throwable failure = unwrap(thrown);
        JsonObject error = new JsonObject();
        error.addProperty("code", code(failure));
        error.addProperty("class", failure.getClass().getName());
        error.addProperty("message", failure.getMessage());
        Throwable cause = failure.getCause();
        if (cause == null) {
            error.add("cause", JsonNull.INSTANCE);
        } else {
            error.addProperty("cause", cause.toString());
        }
        return error;
    }

    /** Futures and reflection wrap what the operation threw; the caller wants the latter. */
    static Throwable unwrap(Throwable thrown) {
        Throwable failure = thrown;
        while (isWrapper(failure) && failure.getCause() != null) {
            failure = failure.getCause();
        }
        return failure;
    }

    private static boolean isWrapper(Throwable failure) {
        return failure instanceof ExecutionException
                || failure instanceof CompletionException
                || failure instanceof InvocationTargetException;
    }

    private static String code(Throwable failure) {
        if (failure instanceof BadRequest) {
            return "bad-request";
        }
        if (failure instanceof IllegalMonitorStateException) {
            return "illegal-monitor-state";
        }
        // Redisson wraps the interrupt that reached it while a command was on its way.
        if (failure instanceof InterruptedException || failure.getCause() instanceof InterruptedException) {
            return "interrupted";
        }
        if (failure instanceof UnsupportedOperationException) {
            return "unsupported";
        }
        // Before RedisException, of which it is a subclass.
        if (failure instanceof RedisTimeoutException) {
            return "timeout";
        }
        if (failure instanceof RedisException) {
            return "redis";
        }
        if (failure instanceof IllegalStateException) {
            return "illegal-state";
        }
        return "other";
    }
}
