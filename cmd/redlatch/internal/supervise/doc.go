// Package supervise runs a command under a lock and sees to it that the command does not outlive the lock.
//
// # When the lock ends early
//
// A hold is valid until a moment that each renewal moves on (redlatch.Hold.ValidUntil), and that lies before the key in Redis can
// expire. The command must be gone by then. So it gets SIGTERM when there is only the grace left until that moment and no renewal has
// moved it, and SIGKILL a moment before it (a quarter of the grace, at most 250 ms), because its end takes time, too. A command that was told to end is not taken back when a renewal succeeds after all. When the
// lock was lost all at once (released by force, deleted, taken over), which the next renewal finds out, it gets SIGTERM at once and
// SIGKILL after the grace, or before the last known end of validity if that is sooner.
//
// # Who gets signals
//
// A command without a terminal (cron, systemd, a container, a pipeline of a CI) gets a process group of its own, and every signal,
// forwarded or sent from here, goes to the whole group: a script's children are told and killed with it.
//
// In the foreground of a terminal the command stays in the group of this program, so that it can read from the terminal and that
// Ctrl-C, Ctrl-\ and Ctrl-Z reach both, as with any other command. SIGINT and SIGQUIT are then not forwarded, because the terminal has sent them
// to the command already; the other signals go to the command alone, and so do SIGTERM and SIGKILL after a loss:
// processes that it has started must end with it.
//
// # What is not guaranteed
//
//   - On Linux the command is killed when this program is (SIGKILL as parent-death signal), since nobody would renew the lock any more;
//     what the command has started is not, nor is anything on other systems. The lock then expires by itself.
//   - A command that leaves processes in the background and ends has ended: the lock is released.
//   - While the whole machine or this program is stopped (Ctrl-Z, SIGSTOP, a suspended laptop), nobody kills anything. When
//     it goes on after the end of validity, the first thing it does is to kill the command; a command that was not stopped has run on until then.
package supervise
