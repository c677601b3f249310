package javaagent

import (
	"errors"
	"fmt"
)

// ErrEnded is what operations get when the JVM has ended, or ends before it has answered them.
var ErrEnded = errors.New("javaagent: the Java agent has ended")

// Code says what kind of failure a JavaError is.
type Code string

// The codes, with what the JVM threw.
const (
	CodeIllegalMonitorState Code = "illegal-monitor-state" // not held by this owner; a non-reentrant lock taken again
	CodeIllegalState        Code = "illegal-state"         // IllegalStateException
	CodeInterrupted         Code = "interrupted"           // InterruptedException, while waiting or while a command was on its way
	CodeTimeout             Code = "timeout"               // Redis did not answer in time
	CodeRedis               Code = "redis"                 // any other RedisException
	CodeUnsupported         Code = "unsupported"           // this kind of lock, or this release, has no such operation
	CodeBadRequest          Code = "bad-request"           // the agent did not understand, or knows no such client
	CodeOther               Code = "other"                 // see Class
)

// JavaError is what the JVM threw.
type JavaError struct {
	Code    Code   `json:"code"`
	Class   string `json:"class"`   // the exception's class
	Message string `json:"message"` // the exception's message
	Cause   string `json:"cause"`   // class and message of its cause, or ""
}

func (e *JavaError) Error() string {
	if e.Cause == "" {
		return fmt.Sprintf("java: %s: %s", e.Class, e.Message)
	}
	return fmt.Sprintf("java: %s: %s (caused by %s)", e.Class, e.Message, e.Cause)
}

// CodeOf returns the code of the JavaError in err's chain, or "" when there is none.
func CodeOf(err error) Code {
	var java *JavaError
	if errors.As(err, &java) {
		return java.Code
	}
	return ""
}
