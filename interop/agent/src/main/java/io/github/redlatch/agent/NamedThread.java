package io.github.redlatch.agent;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Semaphore;

/**
 * One real Java thread that runs the jobs given to it in order. Its thread id, the second half of a lock's owner field,
 * is the same for as long as the agent lives.
 */
final class NamedThread {
    /** A queued or running request. */
    private static final class Job {
        final long id;
        final Runnable work;
        /** Interrupted while still queued: the thread is interrupted as the job begins. Guarded by the outer object. */
        boolean interrupted;

        Job(long id, Runnable work) {
            this.id = id;
            this.work = work;
        }
    }

    private final Thread thread;
    /** Jobs not yet begun. Guarded by this object. */
    private final Queue<Job> queue = new ArrayDeque<>();
    /** The job that the thread is at, or null. Guarded by this object. */
    private Job running;

    NamedThread(String name) {
        thread = new Thread(this::run, "agent-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    @SuppressWarnings("deprecation") // threadId() came with Java 19; Redisson uses getId() too.
    long id() {
        return thread.getId();
    }

    /**
     * Whether the thread sleeps as the waiter of a lock: until a message, the end of a TTL or of its wait. Redisson's waiters
     * sleep on a semaphore, and while they wait for a command's answer on something else.
     */
    boolean asleep() {
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getClassName().equals(Semaphore.class.getName())) {
                Thread.State state = thread.getState();
                return state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
            }
        }
        return false;
    }

    synchronized void submit(long id, Runnable work) {
        queue.add(new Job(id, work));
        notifyAll();
    }

    /** Interrupts whatever the thread is at; false, and nothing done, when it is idle. */
    synchronized boolean interrupt() {
        if (running == null) {
            return false;
        }
        thread.interrupt();
        return true;
    }

    /** Interrupts the job with this id, running or still queued; false when it has ended or was never given. */
    synchronized boolean interrupt(long id) {
        if (running != null && running.id == id) {
            thread.interrupt();
            return true;
        }
        for (Job job : queue) {
            if (job.id == id) {
                job.interrupted = true;
                return true;
            }
        }
        return false;
    }

    private void run() {
        while (true) {
            next().work.run();
            synchronized (this) {
                running = null;
                // An interrupt is meant for one job; what is left of it must not reach the next one.
                Thread.interrupted();
            }
        }
    }

    /** Waits for a job. It leaves the queue and becomes the running one in one step, so that interrupt(id) finds it. */
    private synchronized Job next() {
        while (queue.isEmpty()) {
            try {
                wait();
            } catch (InterruptedException e) {
                // Only a running job is interrupted; between two jobs an interrupt means nothing.
                continue;
            }
        }
        running = queue.remove();
        if (running.interrupted) {
            thread.interrupt();
        }
        return running;
    }
}
