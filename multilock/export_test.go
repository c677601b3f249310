package multilock

import "time"

// Paced makes rounds shorter or longer: d is a member's part of one. It must be called before the lock is used.
func (l *Lock) Paced(d time.Duration) *Lock {
	l.pace = d
	return l
}
