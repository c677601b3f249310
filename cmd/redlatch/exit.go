package main

import (
	"errors"
	"fmt"
	"strings"
)

// What the program itself exits with. A command under "run" can use the same numbers; sysexits.h has chosen them so that few do.
const (
	exitFailed      = 1   // the demo's verdict
	exitUsage       = 64  // EX_USAGE
	exitUnavailable = 69  // EX_UNAVAILABLE
	exitNotAcquired = 75  // EX_TEMPFAIL: trying later can help
	exitLost        = 76  // EX_PROTOCOL: the work was not protected to its end
	exitNotRunnable = 126 // as shells have it
	exitNotFound    = 127 // as shells have it
	exitSignalled   = 128 // plus the number of the signal
)

const exitCodesHelp = `Exit codes:
  0      all is well; for "run": the command's own exit code 0
  1      demo: the lock failed, or nothing could be shown
  64     wrong arguments
  69     the server (for demo --java: the JVM) can't be reached or refuses
  75     run: the lock was not acquired
  76     run: the lock was lost or about to end; the command was stopped, or not
         protected to its end
  126    run: the command can't be executed
  127    run: the command was not found
  128+n  run: signal n ended the command, or the wait for the lock; demo: signal n
         ended it early
Everything else is the exit code of the command under "run".`

// exitError ends the program with a code, and with one line on stderr unless err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit gives an error a code; nil stays nil, and a code given before stays.
func exit(code int, err error) error {
	var coded *exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{code, err}
}

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// codeOf is the exit code for what a command returned. Errors without a code come from the parsing of the command line.
func codeOf(err error) int {
	var coded *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.code
	default:
		return exitUsage
	}
}

// joinedLines is how many lines are taken for joined errors, and made one; more are what a build tool has written.
const joinedLines = 4

// message is the line for stderr, "" for none.
func message(err error) string {
	var coded *exitError
	if errors.As(err, &coded) && coded.err == nil {
		return ""
	}
	text := strings.TrimSpace(err.Error())
	if strings.Count(text, "\n") < joinedLines {
		text = strings.ReplaceAll(text, "\n", "; ")
	}
	for _, prefix := range []string{"redlatch: ", "javaagent: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if coded == nil { // cobra's own
		text += "; see redlatch --help"
	}
	return "redlatch: " + text
}
