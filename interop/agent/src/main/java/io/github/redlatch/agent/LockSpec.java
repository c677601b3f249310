package io.github.redlatch.agent;

import java.util.ArrayList;
import java.util.List;

/**
 * Says which lock is meant. Two equal specs are one lock object of the agent: see {@link Locks}.
 *
 * <p>Only multi and red have members; a member may be of another client, which is how a RedLock spans independent
 * servers. Only grouped has values, only spin has a back-off.
 */
record LockSpec(String client, String kind, String name, List<LockSpec> members, List<String> values,
                BackOff backOff) {

    static LockSpec read(Request request) {
        return read(request, request.text("client"));
    }

    private static LockSpec read(Request request, String client) {
        String kind = request.text("kind");
        boolean composite = kind.equals("multi") || kind.equals("red");
        List<LockSpec> members = new ArrayList<>();
        for (Request member : request.objects("members")) {
            members.add(read(member, member.text("client", client)));
        }
        if (composite == members.isEmpty()) {
            throw new BadRequest("kind \"" + kind + "\" needs " + (composite ? "at least one member" : "no members"));
        }
        String name = composite ? "" : request.text("name");
        BackOff backOff = request.has("backOff") ? BackOff.read(request.object("backOff")) : null;
        return new LockSpec(client, kind, name, members, request.texts("values"), backOff);
    }

    /** Whether this lock, or one of its members, belongs to the client. */
    boolean uses(String other) {
        return client.equals(other) || members.stream().anyMatch(member -> member.uses(other));
    }
}
