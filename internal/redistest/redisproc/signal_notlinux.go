//go:build !linux

package redisproc

import "syscall"

// dieWithParent has no counterpart outside Linux: there a server can outlive a program that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
