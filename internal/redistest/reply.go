package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// Reply is the server's answer to one command. Its methods panic when the answer is of another shape, since a test that
// asks for an integer has already gone wrong when it gets a list.
type Reply struct{ f frame }

// IsNil says whether the answer is null, in any of RESP's forms.
func (r Reply) IsNil() bool { return r.f.null }

// Text is a string, status or number as text; "" for null.
func (r Reply) Text() string {
	if r.f.items != nil {
		panic(fmt.Sprintf("redistest: the reply is a list of %d, not a text: %v", len(r.f.items), r))
	}
	return r.f.text
}

// Int is an integer, or a string that reads as one.
func (r Reply) Int() int64 {
	n, err := strconv.ParseInt(r.Text(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("redistest: the reply %v is not an integer", r))
	}
	return n
}

// List is an array's elements, nil for null.
func (r Reply) List() []Reply {
	if r.f.items == nil && !r.f.null && r.f.kind != kindArray {
		panic(fmt.Sprintf("redistest: the reply %v is not a list", r))
	}
	var out []Reply
	for _, item := range r.f.items {
		out = append(out, Reply{item})
	}
	return out
}

// Texts is an array of strings, nil for null and for an empty one.
func (r Reply) Texts() []string {
	var out []string
	for _, item := range r.List() {
		out = append(out, item.Text())
	}
	return out
}

// Map is an array of keys and values in turn, as HGETALL and CONFIG GET return it.
func (r Reply) Map() map[string]string {
	texts := r.Texts()
	if len(texts)%2 != 0 {
		panic(fmt.Sprintf("redistest: the reply %v has no pairs", r))
	}
	out := make(map[string]string, len(texts)/2)
	for i := 0; i < len(texts); i += 2 {
		out[texts[i]] = texts[i+1]
	}
	return out
}

// String shows the reply in a failure message.
func (r Reply) String() string {
	switch {
	case r.f.null:
		return "(nil)"
	case r.f.items == nil:
		return strconv.Quote(r.f.text)
	}
	var parts []string
	for _, item := range r.f.items {
		parts = append(parts, Reply{item}.String())
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// ReplyError is an error reply: the server's words, beginning with its code, such as "WRONGTYPE …".
type ReplyError string

func (e ReplyError) Error() string { return "redis: " + string(e) }
