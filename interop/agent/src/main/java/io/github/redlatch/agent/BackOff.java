package io.github.redlatch.agent;

/**
 * How a spin lock waits between two tries, in milliseconds. Constant: initialMs each time. Exponential: from initialMs,
 * times multiplier, up to maxMs. A record, so that equal options name the same kept lock object.
 */
record BackOff(String type, long initialMs, long maxMs, int multiplier) {
    static BackOff read(Request request) {
        String type = request.text("type", "exponential");
        if (!type.equals("exponential") && !type.equals("constant")) {
            throw new BadRequest("a back-off is \"exponential\" or \"constant\", not \"" + type + "\"");
        }
        boolean constant = type.equals("constant");
        return new BackOff(type,
                request.number("initialMs", constant ? 64 : 1, 1, 60_000),
                request.number("maxMs", 128, 1, 60_000),
                request.number("multiplier", 2, 1, 100));
    }

    boolean isConstant() {
        return type.equals("constant");
    }
}
