package interop

import (
	"strconv"
	"strings"
)

// javaIs says whether the JVM's Redisson is of that release or a newer one, such as 3.22.
func javaIs(major, minor int) bool {
	parts := strings.SplitN(agent.Redisson(), ".", 3)
	have := [2]int{}
	for i := range have {
		have[i], _ = strconv.Atoi(parts[i])
	}
	return have[0] > major || have[0] == major && have[1] >= minor
}

// javaKnowsSharded: before 3.22 Redisson publishes the messages of locks with PUBLISH, also on a cluster that has better (wire-protocol.md §2).
func javaKnowsSharded() bool { return javaIs(3, 22) }
