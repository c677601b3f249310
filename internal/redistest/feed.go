package redistest

import (
	"fmt"
	"sync"
	"time"
)

// feed collects what one connection reads, for any number of readers. It is safe for concurrent use.
type feed[T any] struct {
	mu      sync.Mutex
	items   []T           // guarded by mu
	err     error         // guarded by mu: why nothing more will come
	changed chan struct{} // guarded by mu: closed and replaced at each change
}

func newFeed[T any]() *feed[T] { return &feed[T]{changed: make(chan struct{})} }

func (s *feed[T]) add(item T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item)
	s.wakeLocked()
}

func (s *feed[T]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.wakeLocked()
}

func (s *feed[T]) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until enough says so of all items, and returns a copy of them. It fails when the stream ends or ioTimeout
// passes first; it then returns what there is.
func (s *feed[T]) await(enough func([]T) bool) ([]T, error) {
	timeout := time.NewTimer(ioTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		items, err, changed := append([]T(nil), s.items...), s.err, s.changed
		s.mu.Unlock()
		switch {
		case enough(items):
			return items, nil
		case err != nil:
			return items, fmt.Errorf("the connection has ended: %w", err)
		}
		select {
		case <-changed:
		case <-timeout.C:
			return items, fmt.Errorf("it did not come within %v", ioTimeout)
		}
	}
}

// cut drops the first n items.
func (s *feed[T]) cut(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append([]T(nil), s.items[n:]...)
}
