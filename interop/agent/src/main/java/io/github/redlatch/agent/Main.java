package io.github.redlatch.agent;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Reads one request per line from stdin until stdin ends, then shuts every client down and exits with 0.
 *
 * <p>The end of stdin is the only way to stop the agent from inside the protocol, and it also covers the driver that
 * died: a pipe closes with its process, so no agent outlives the test that started it.
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws IOException {
        // Taken before anything can print: a library that writes to System.out must not break the protocol.
        Replies replies = new Replies(new FileOutputStream(FileDescriptor.out));
        PrintStream log = System.err;
        System.setOut(log);

        Agent agent = new Agent(replies);
        replies.ready();
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (!line.isBlank()) {
                    agent.handle(line);
                }
            }
        } finally {
            agent.close();
        }
        // Explicit, because a release of Redisson may leave a non-daemon thread behind that would keep the JVM alive.
        System.exit(0);
    }
}
