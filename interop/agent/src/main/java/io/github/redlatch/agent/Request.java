package io.github.redlatch.agent;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.util.ArrayList;
import java.util.List;

/** One request, or an object nested in one, with typed access to its fields. A JSON null counts as absent. */
final class Request {
    private final JsonObject fields;

    private Request(JsonObject fields) {
        this.fields = fields;
    }

    static Request parse(String line) {
        try {
            return new Request(JsonParser.parseString(line).getAsJsonObject());
        } catch (JsonParseException | IllegalStateException e) {
            throw new BadRequest("a request must be one JSON object on one line: " + e.getMessage());
        }
    }

    /** The caller's number for this request, repeated in its answer. */
    long id() {
        return number("id");
    }

    String operation() {
        return text("op");
    }

    boolean has(String field) {
        JsonElement value = fields.get(field);
        return value != null && !value.isJsonNull();
    }

    String text(String field) {
        JsonElement value = required(field);
        if (!value.isJsonPrimitive()) {
            throw new BadRequest("field \"" + field + "\" must be a string, not " + value);
        }
        return value.getAsString();
    }

    String text(String field, String whenAbsent) {
        return has(field) ? text(field) : whenAbsent;
    }

    long number(String field) {
        JsonElement value = required(field);
        try {
            return value.getAsLong();
        } catch (RuntimeException e) {
            throw new BadRequest("field \"" + field + "\" must be a whole number, not " + value);
        }
    }

    long number(String field, long whenAbsent) {
        return has(field) ? number(field) : whenAbsent;
    }

    /** A number that must lie in min..max, because a thread count or a sleep outside it is a typing error. */
    int number(String field, int whenAbsent, int min, int max) {
        long value = number(field, whenAbsent);
        if (value < min || value > max) {
            throw new BadRequest("field \"" + field + "\" is " + value + ", allowed are " + min + " to " + max);
        }
        return (int) value;
    }

    boolean flag(String field) {
        return has(field) && fields.get(field).getAsBoolean();
    }

    List<String> texts(String field) {
        List<String> values = new ArrayList<>();
        for (JsonElement value : array(field)) {
            values.add(value.getAsString());
        }
        return values;
    }

    List<Request> objects(String field) {
        List<Request> values = new ArrayList<>();
        for (JsonElement value : array(field)) {
            values.add(new Request(value.getAsJsonObject()));
        }
        return values;
    }

    Request object(String field) {
        JsonElement value = required(field);
        if (!value.isJsonObject()) {
            throw new BadRequest("field \"" + field + "\" must be an object, not " + value);
        }
        return new Request(value.getAsJsonObject());
    }

    private JsonArray array(String field) {
        if (!has(field)) {
            return new JsonArray();
        }
        JsonElement value = fields.get(field);
        if (!value.isJsonArray()) {
            throw new BadRequest("field \"" + field + "\" must be an array, not " + value);
        }
        return value.getAsJsonArray();
    }

    private JsonElement required(String field) {
        if (!has(field)) {
            throw new BadRequest("field \"" + field + "\" is missing in " + fields);
        }
        return fields.get(field);
    }
}
