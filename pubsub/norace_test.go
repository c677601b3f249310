//go:build !race

package pubsub_test

import "time"

// limit is what confirming 100 000 channels may take.
const limit = 2 * time.Second
