//go:build unix && !linux

package supervise

import "syscall"

// attributes of the child: a group of its own unless it shares the terminal. There is no parent-death signal here.
func attributes(shared bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !shared}
}
