package redisproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports lie below the range from which Linux takes the ports of outgoing connections (32768 and up), so that none of
// those can sit on a server's port between its Kill and its Restart; and the cluster bus, at port + 10000, does too.
const (
	lowestPort  = 10000
	highestPort = 22000
)

// FreePort returns a port of 127.0.0.1 on which nobody listened a moment ago, and that no outgoing connection will be given.
func FreePort() (int, error) {
	var err error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("redisproc: no free port of 127.0.0.1 between %d and %d: %w", lowestPort, highestPort, err)
}
