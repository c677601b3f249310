package redisproc

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until every thread of the process is in state T. The kernel takes microseconds for it, so the loop
// yields instead of sleeping.
func awaitStopped(r *run) error {
	dir := fmt.Sprintf("/proc/%d/task", r.pid)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		threads, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("redisproc: read the state of process %d: %w", r.pid, err)
		}
		stopped := 0
		for _, thread := range threads {
			if threadState(dir+"/"+thread.Name()+"/stat") == 'T' {
				stopped++
			}
		}
		if stopped == len(threads) {
			return nil
		}
	}
	return fmt.Errorf("redisproc: process %d did not stop within 10 s of SIGSTOP", r.pid)
}

// threadState is the letter after the command's name in a stat file of /proc; 0 when the thread is gone.
func threadState(path string) byte {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	// The name is in parentheses and can itself hold some, so the last one counts.
	if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) {
		return stat[i+2]
	}
	return 0
}
