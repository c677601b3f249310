//go:build race

package pubsub_test

import "time"

// limit is what confirming 100 000 channels may take; the race detector slows everything down several times.
const limit = 10 * time.Second
