package io.github.redlatch.agent;

/** The request itself is wrong: not JSON, an unknown operation, a field that is missing or out of range. */
final class BadRequest extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BadRequest(String message) {
        super(message);
    }
}
