package supervise

import "syscall"

// attributes of the child: a group of its own unless it shares the terminal, and its death with this program's.
func attributes(shared bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !shared, Pdeathsig: syscall.SIGKILL}
}
