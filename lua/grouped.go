package lua

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var (
	groupedAcquire      = named("grouped_acquire")
	groupedReenter      = named("grouped_reenter")
	groupedRelease      = named("grouped_release")
	groupedForceRelease = named("grouped_force_release")
	groupedHandOver     = named("grouped_hand_over")
	groupedRenew        = named("grouped_renew")
	groupedInspect      = named("grouped_inspect")
)

// GroupReentry is the code of the server's reply when GroupedAcquire meets a value that the same owner holds in another group; the
// number of the value follows, from 1.
const GroupReentry = "REENTRY"

// GroupedAcquire takes all values of a group for an owner without holds of it (wire-protocol.md §11). kin is what the owners of all
// groups begin with that the same owner takes.
func GroupedAcquire(lock, latch, owner, kin string, lease time.Duration, values []string) Call[Grant] {
	args := append([]string{millis(lease), owner, kin}, values...)
	return Call[Grant]{groupedAcquire, []string{lock, latch}, args, readGrant}
}

// GroupedReenter raises the count of an owner to count. An entry shortens no lease, anything else sets it (wire-protocol.md §11).
func GroupedReenter(lock, latch, owner string, lease time.Duration, count int, entry bool, values []string) Call[Grant] {
	args := append([]string{millis(lease), owner, strconv.Itoa(count), flag(entry)}, values...)
	return Call[Grant]{groupedReenter, []string{lock, latch}, args, readEntry}
}

// GroupedRelease lowers the count of an owner (wire-protocol.md §11).
func GroupedRelease(lock, channel, latch string, d Departure, values []string) Call[Release] {
	return Call[Release]{groupedRelease, []string{lock, channel, latch}, append(d.args(), values...), readRelease}
}

// GroupedForceRelease frees the values whoever holds them (wire-protocol.md §11).
func GroupedForceRelease(lock, channel, publish string, values []string) Call[Release] {
	args := append([]string{publish}, values...)
	return Call[Release]{groupedForceRelease, []string{lock, channel}, args, readForced}
}

// GroupedHandOver passes a group between two owners of one client; not acquired when from does not hold all of it.
func GroupedHandOver(lock, latch, from, to string, lease time.Duration, values []string) Call[Grant] {
	args := append([]string{from, to, millis(lease)}, values...)
	return Call[Grant]{groupedHandOver, []string{lock, latch}, args, readEntry}
}

// GroupedRenew renews the same values in each of the locks; those of locks[i] belong to owners[i] (wire-protocol.md §11).
func GroupedRenew(locks, owners []string, lease time.Duration, values []string) Call[[]bool] {
	args := make([]string, 0, 1+len(owners)+len(values))
	args = append(append(append(args, millis(lease)), owners...), values...)
	return Call[[]bool]{groupedRenew, locks, args, readBools}
}

// GroupedInspect reads who holds values of a group. The fields of the state are owners, as "<client id>:<thread id>", and how often
// each holds the group: 0 for who keeps it from others, but holds a part of it only, or its values in another group. mark is what
// follows an owner that holds exactly these values.
func GroupedInspect(lock, mark string, values []string) Call[State] {
	return Call[State]{groupedInspect, []string{lock}, values, func(m rueidis.RedisMessage) (State, error) {
		s, err := readState(m)
		s.Fields = holdersOf(s.Fields, mark)
		return s, err
	}}
}

// holdersOf takes the marks off the owners. The count of a group with another mark is not that of this one; Redisson's owners have none.
func holdersOf(counts map[string]string, mark string) map[string]string {
	holders := make(map[string]string, len(counts))
	for field, count := range counts {
		owner, marked := field, ""
		if parts := strings.SplitN(field, ":", 3); len(parts) == 3 {
			owner, marked = parts[0]+":"+parts[1], ":"+parts[2]
		}
		if marked != "" && marked != mark {
			count = "0"
		}
		if n, there := holders[owner]; !there || n == "0" {
			holders[owner] = count
		}
	}
	return holders
}
