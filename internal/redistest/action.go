package redistest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Action is what becomes of one command and its reply. On each connection everything keeps its order, as on a TCP
// connection: what is held holds up what comes behind it, and a cut comes after the replies to earlier commands.
type Action struct {
	kind   actionKind
	until  <-chan struct{} // for the two that hold
	answer string          // for answerKind
}

type actionKind int

const (
	passKind actionKind = iota
	holdRequestKind
	swallowKind
	cutRequestKind
	answerKind
	holdReplyKind
	loseReplyKind
)

// Pass sends the command on and its reply back.
func Pass() Action { return Action{} }

// HoldRequest keeps the command, and all behind it, from the server until the channel is closed. It is then sent even if
// the client has closed its connection meanwhile: so arrives a packet that was long under way.
func HoldRequest(until <-chan struct{}) Action { return Action{kind: holdRequestKind, until: until} }

// SwallowRequest makes the command, and all behind it on this connection, vanish; the connection stays open and silent.
func SwallowRequest() Action { return Action{kind: swallowKind} }

// CutRequest closes the connection without sending the command: it is certain not to be executed.
func CutRequest() Action { return Action{kind: cutRequestKind} }

// AnswerError does not send the command and answers it with an error reply: "LOADING Redis is loading the dataset in
// memory".
func AnswerError(message string) Action {
	return Action{kind: answerKind, answer: "-" + message + "\r\n"}
}

// HoldReply sends the command on, and keeps its reply, and all that comes behind it, from the client until the channel is
// closed.
func HoldReply(until <-chan struct{}) Action { return Action{kind: holdReplyKind, until: until} }

// LoseReply sends the command on, waits for its reply, which proves that it was executed, and closes the connection
// instead of bringing it. Commands behind it are not sent.
func LoseReply() Action { return Action{kind: loseReplyKind} }

// Sends fits a command by its name, in any case, and by arguments that contain each of the parts: Sends("EVALSHA",
// "order:1").
func Sends(name string, parts ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		return strings.EqualFold(cmd[0], name) && hasParts(cmd, parts)
	}
}

// SendsScript is Sends for a script, whether by its text or by its digest.
func SendsScript(parts ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		name := strings.ToUpper(cmd[0])
		return (strings.HasPrefix(name, "EVAL") || strings.HasPrefix(name, "FCALL")) && hasParts(cmd, parts)
	}
}

func hasParts(cmd, parts []string) bool {
	for _, part := range parts {
		if !slices.ContainsFunc(cmd[1:], func(arg string) bool { return strings.Contains(arg, part) }) {
			return false
		}
	}
	return true
}

// Trap waits for one command; see Relay.Next.
type Trap struct {
	fits      func(cmd []string) bool
	action    Action
	requested chan struct{} // closed when the command has come; cmd is set before
	cmd       []string
	answered  chan struct{} // closed when the server's reply has come; reply is set before
	reply     Reply
}

// Requested is closed when the relay has read the command.
func (tr *Trap) Requested() <-chan struct{} { return tr.requested }

// Answered is closed when the server's reply has reached the relay, whether or not it goes further: the command has been
// executed. It is never closed where the command was not sent.
func (tr *Trap) Answered() <-chan struct{} { return tr.answered }

// AwaitRequest waits for the command and returns it. It fails the test after 20 s.
func (tr *Trap) AwaitRequest(t testing.TB) []string {
	t.Helper()
	awaitTrap(t, tr.requested, "no command came that fits the trap")
	return tr.cmd
}

// AwaitReply waits for the server's reply and returns it; for an error reply its Text is the server's words. It fails the test
// after 20 s.
func (tr *Trap) AwaitReply(t testing.TB) Reply {
	t.Helper()
	tr.AwaitRequest(t)
	awaitTrap(t, tr.answered, "the server did not answer the trapped command")
	return tr.reply
}

func awaitTrap(t testing.TB, c <-chan struct{}, complaint string) {
	t.Helper()
	timeout := time.NewTimer(ioTimeout)
	defer timeout.Stop()
	select {
	case <-c:
	case <-timeout.C:
		t.Fatalf("redistest: %s within %v", complaint, ioTimeout)
	}
}
