package javaagent

import "sync"

// tailSize is how much of a process's output is kept for error messages: some hundred lines.
const tailSize = 32 << 10

// tail is a writer that keeps the end of what was written to it. Its zero value is ready; it is safe for concurrent use.
type tail struct {
	mu  sync.Mutex // guards end
	end []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if over := len(t.end) - tailSize; over > 0 {
		t.end = append([]byte(nil), t.end[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
