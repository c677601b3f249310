package pubsub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// ErrClosed is the Err of every Subscription after Hub.Close.
var ErrClosed = errors.New("pubsub: closed")

// RefusedError is the Err of a Subscription whose channel the server refused, for a reason that trying again by itself
// cannot mend.
type RefusedError struct {
	Channel string
	Command string // SUBSCRIBE or SSUBSCRIBE
	Err     error  // the server's words, a *rueidis.RedisError
}

func (e *RefusedError) Error() string {
	msg := fmt.Sprintf("pubsub: %s %s was refused: %v", e.Command, e.Channel, e.Err)
	if remedy := e.remedy(); remedy != "" {
		msg += " (" + remedy + ")"
	}
	return msg
}

// Unwrap returns the server's words.
func (e *RefusedError) Unwrap() error { return e.Err }

// remedy says what to do about the refusal, where that is known.
func (e *RefusedError) remedy() string {
	command := strings.ToLower(e.Command)
	switch code(e.Err) {
	case "NOPERM":
		return fmt.Sprintf("grant the user the channel with the ACL rule &%s, and +%s +%s +ping",
			e.Channel, command, undo(command))
	case "MOVED":
		return "a sharded channel is served only by the master of its slot: connect to the node that is named here"
	case "unknown": // command
		if command == "ssubscribe" {
			return "sharded channels need Redis 7.0 or newer: use plain ones where the server knows no " + e.Command
		}
	}
	return ""
}

// undo names the command that undoes a subscribing one: ssubscribe → sunsubscribe.
func undo(command string) string {
	return strings.TrimSuffix(command, "subscribe") + "unsubscribe"
}

// code is the first word of an error reply: NOPERM, BUSY. Of a reply that begins with ERR it is the word after that, which
// rueidis leaves out. It is empty for everything that did not come from the server.
func code(err error) string {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	return word
}

// passing says that the server's refusal goes away by itself: it loads its data, runs somebody's long script, has lost
// its master or a part of its cluster.
func passing(err error) bool {
	switch code(err) {
	case "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN":
		return true
	}
	return false
}
