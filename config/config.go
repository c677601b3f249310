package config

import (
	"crypto/tls"
	"math"
	"time"
)

// Config is what a client is told before it opens. Only Servers has to be set: the zero value of every other field means its
// documented default. Names and defaults are those of Redisson 4.7.0 wherever Redisson has the setting, so that a redisson.yaml can
// be read across; the fields from PlainAndSharded on are Redlatch's own.
//
// A Config is a plain value. WithDefaults works on a copy, and a client keeps its own, so changing a Config after the client
// has opened changes nothing. Its String and LogValue never show the password; but fmt calls neither for a Config inside
// an unexported field of another struct, so do not print such a struct with %+v.
type Config struct {
	// Servers says where Redis is. There is no default. See Single, Cluster, Sentinel, MasterSlave and Replicated.
	Servers Servers

	// Username and Password log in with AUTH on every connection. Empty: no AUTH is sent. A Username without a Password is an error;
	// a Password alone logs in as Redis's default user. Both may stand in the address instead, but then must not differ from these.
	// YAML: username, password.
	Username string
	Password string

	// SentinelUsername and SentinelPassword log in with AUTH on connections to the sentinels, which have users of their own.
	// Empty: no AUTH is sent, and where the sentinels demand one, Username and Password, as Redisson does. A user needs a password here
	// too. Both may stand in the addresses of the sentinels instead. With other topologies than Sentinel they are errors.
	// YAML: sentinelUsername, sentinelPassword.
	SentinelUsername string
	SentinelPassword string

	// Database is the number that SELECT is sent with. Default 0; range 0 … 2147483647, of which a server by default has 16, and 0 alone
	// on a cluster. May stand in the address instead, but then must not differ. Messages are not bound to a database: locks of one name in
	// two databases exclude nobody from each other, but wake each other's waiters in vain. YAML: database.
	Database int

	// ClientName is what CLIENT LIST shows for every connection. Empty: no name is set. CLIENT SETNAME takes printable ASCII without
	// spaces only. YAML: clientName.
	ClientName string

	// TLS, when set, encrypts every connection. It may be left nil with an address of rediss:// or valkeys://, which then means the
	// system's roots and at least TLS 1.2. Setting it for an address that says redis:// or valkey:// is an error. The client uses a clone.
	// In YAML this is the family sslTruststore, sslKeystore, sslVerificationMode.
	TLS *tls.Config

	// NATMapper turns an address that a server or a sentinel tells of, as host:port, into the one to dial, for clients that see the servers
	// behind a port mapping: a cluster's nodes or a sentinel's master. It is not asked about the addresses in Servers. Nil: the
	// address as it is. It must be safe for concurrent use and give host:port; anything else cannot be dialled. Without effect with
	// Single, MasterSlave and Replicated, where nothing is told. YAML: natMapper (there a Java class).
	NATMapper func(address string) string

	// ScanInterval is how often the topology is looked at for changes: the cluster's slots, the sentinels' master, the roles of replicated
	// servers. A change that is noticed in another way, such as a server's MOVED, is followed at once. Default 5 s with Cluster, 1 s
	// with Sentinel and Replicated; range 100 ms … 1 h. Without effect with other topologies. YAML: scanInterval.
	ScanInterval time.Duration

	// DNSMonitoringInterval is how often the name of the server is looked up again where its address is fixed: with Single and MasterSlave. When the
	// name has lost all the hosts that it had when it was connected to, in two answers in a row, and a server answers at the new ones,
	// that is used, although the old one may go on: the clients of Redisson go there as well, and who stayed would hold locks
	// that exclude nobody any more. Holds that the new server does not know are lost by their next renewal. Default 5 s; range 1 ms
	// … 24 h, or NoDNSMonitoring. Without effect on an address that is a number or a socket, and with other topologies.
	// YAML: dnsMonitoringInterval.
	DNSMonitoringInterval time.Duration

	// NameMapper turns a lock's name into the name that stands in Redis, usually by putting a prefix before it. Nil: the name as it is.
	// It must give the same answer for the same name each time, be safe for concurrent use, and agree with the mapper of every Java
	// service that shares the lock. All companion keys and channels derive from the mapped name. YAML: nameMapper (there a Java class).
	NameMapper func(name string) string

	// LockWatchdogTimeout is the lease of a lock taken without one, and so the time after which a lock of a crashed process frees
	// itself; it is renewed at a third of this. Default 30 s; range 100 ms … MaxLease. Redisson takes any value above 0; below
	// 100 ms a renewal would have to make its round trip every 33 ms, and an ordinary garbage collection pause would lose the lock.
	// A part of a millisecond is cut off, since Redis counts in milliseconds. YAML: lockWatchdogTimeout.
	LockWatchdogTimeout time.Duration

	// LockWatchdogBatchSize is how many locks one script renews. Default 100; range 1 … 10000. A server does nothing else while a
	// script runs, so a larger batch trades round trips for pauses of everybody else. YAML: lockWatchdogBatchSize.
	LockWatchdogBatchSize int

	// FairLockWaitTimeout is how long a waiter without a wait limit keeps its place in a fair lock's queue without a sign of life;
	// after it the others treat it as dead. Default 5 min; range 100 ms … MaxLease. It must be the same in every process
	// that shares a fair lock, Java included: each acquisition moves all scores by its own value. A part of a millisecond is cut off.
	// YAML: fairLockWaitTimeout.
	FairLockWaitTimeout time.Duration

	// CheckLockSyncedSlaves says what replicas must acknowledge before an operation counts as done. The default fails an operation when
	// replicas were there and none acknowledged it. Nothing is sent or checked on a single server, and asking for a
	// number of replicas there is an error. YAML: checkLockSyncedSlaves; its false is nearest to SyncedSlavesOff.
	CheckLockSyncedSlaves SyncedSlaves

	// SlavesSyncTimeout is how long WAIT gives the replicas to acknowledge. Default 1 s; range 1 ms … 1 h (to WAIT, 0 would mean
	// for ever). The time is taken off the trust in the lock just acquired, so it should be well below LockWatchdogTimeout. A part of a
	// millisecond is cut off. YAML: slavesSyncTimeout.
	SlavesSyncTimeout time.Duration

	// ShardedSubscriptionMode says whether messages travel by SPUBLISH and SSUBSCRIBE. It counts on a cluster only, as in Redisson;
	// elsewhere it is PUBLISH and SUBSCRIBE whatever is set. Default ShardedSubscriptionAuto. YAML: shardedSubscriptionMode.
	ShardedSubscriptionMode ShardedSubscriptionMode

	// Timeout is how long one command's answer is waited for. Default 3 s; range 1 ms … 24 h. A connection on which nothing comes back any
	// more is found out by a ping, 5 s plus this time later at the most (sooner with a short LockWatchdogTimeout); until then other
	// commands go the same way, and fail in the same way. YAML: timeout.
	Timeout time.Duration

	// ConnectTimeout bounds the making of one connection, with TLS. The log-in comes after it, and has the shorter of this and Timeout.
	// Default 10 s; range 1 ms … 24 h. YAML: connectTimeout.
	ConnectTimeout time.Duration

	// RetryAttempts is how often a command that failed for a cause that may pass is sent again, so a command is sent once more
	// often than this. Where masters can change, and where a server refuses to write, failures that come at once count by their time and
	// not by their number: as long as so many timeouts and delays would take. Default 4; range 1 … 2147483647, or NoRetry. Read it through Retries. An acquire whose answer was lost is settled
	// by reading, not by sending it again, whatever stands here. YAML: retryAttempts (whose 0 is NoRetry).
	RetryAttempts int

	// RetryDelay is the pause before each re-sending, with Redisson's equal jitter; see Delay. Default 1 s … 2 s; range 1 ms … 1 h, Min
	// not above Max. Setting one of the two means setting both. YAML: retryDelay (baseDelay, maxDelay).
	RetryDelay Delay

	// PlainAndSharded makes a cluster's messages travel both ways: each is published with PUBLISH and SPUBLISH, and waiters listen with
	// SUBSCRIBE and SSUBSCRIBE. It is for a fleet in which Redisson before 3.22, which knows PUBLISH only, shares locks with newer ones,
	// which by themselves would wake each other by timeouts only (wire-protocol.md §2). It costs a second message for each release,
	// which goes to all nodes, and a second subscription for each waiter's channel. Default false. On a cluster without sharded
	// messages (before Redis 7.0) and without a cluster there is PUBLISH and SUBSCRIBE alone. Together with ShardedSubscriptionOff
	// it is an error.
	PlainAndSharded bool

	// SubscriptionLinger is how long a channel stays subscribed after its last waiter has left, so that a hot lock does not
	// subscribe and unsubscribe in a loop. Default 10 s; range 1 ms … 24 h, or NoLinger.
	SubscriptionLinger time.Duration

	// FallbackPoll is the longest time that a waiter sleeps when its message was lost: it asks Redis again after this time at the
	// latest, ±20 % so that many waiters do not ask in step. Default 10 s; range 10 ms … 1 h. An awaited TTL that ends sooner still
	// ends the sleep sooner.
	FallbackPoll time.Duration

	// HandOffLimit is how often in a row a lock may go straight from one holder to the next waiter of the same process, past the
	// waiters of other processes. Default 16; range 1 … 10000, or NoHandOff.
	HandOffLimit int

	// HandOffWindow bounds the same series in time, from its first acquisition on. Default 50 ms; range 1 ms … 1 min: for that long
	// other processes, Java among them, can be kept from a lock that is in fact free to take.
	HandOffWindow time.Duration

	// DriftMargin is the fraction of every lease that is not trusted, because the client's clock and the server's may run at different
	// speeds. Default 0.01; range above 0 and below 0.5. Trust has the formula. The further 2 ms stay in any case; who wants next to no
	// margin writes 1e-9, for a hold trusted to the very last moment overlaps with the next one on any two real clocks.
	DriftMargin float64

	// SkipKindCheck lets locks of different kinds meet on one name as in Redisson, which does not look: a read lock enters beside the holder of a
	// plain one, and a plain one waits for the end of a read/write lock. Default false: what finds a lock of another kind under its name,
	// where the data shows it, fails with redlatch.ErrWrongType, and changes nothing. Plain, fair and fenced locks look alike in Redis and
	// keep each other out, so they are never refused; a grouped multi-lock always refuses the others.
	SkipKindCheck bool
}

// Defaults, and the values that turn a thing off where zero already means the default.
const (
	DefaultLockWatchdogTimeout   = 30 * time.Second
	DefaultLockWatchdogBatchSize = 100
	DefaultFairLockWaitTimeout   = 5 * time.Minute
	DefaultSlavesSyncTimeout     = time.Second
	DefaultTimeout               = 3 * time.Second
	DefaultConnectTimeout        = 10 * time.Second
	DefaultRetryAttempts         = 4
	DefaultRetryDelayMin         = time.Second
	DefaultRetryDelayMax         = 2 * time.Second
	DefaultScanInterval          = time.Second     // with Sentinel and Replicated
	DefaultClusterScanInterval   = 5 * time.Second // with Cluster
	DefaultDNSMonitoringInterval = 5 * time.Second // with Single and MasterSlave
	DefaultSubscriptionLinger    = 10 * time.Second
	DefaultFallbackPoll          = 10 * time.Second
	DefaultHandOffLimit          = 16
	DefaultHandOffWindow         = 50 * time.Millisecond
	DefaultDriftMargin           = 0.01

	// NoRetry as RetryAttempts: a command is sent once. Other negative values are errors.
	NoRetry = -1
	// NoLinger as SubscriptionLinger: a channel is unsubscribed as soon as its last waiter has left. Other negative values are errors.
	NoLinger time.Duration = -1
	// NoDNSMonitoring as DNSMonitoringInterval: a name is looked up when it is connected to, and not again before that connection breaks or its
	// server refuses to write. For a name that leads now here, now there. Other negative values are errors.
	NoDNSMonitoring time.Duration = -1
	// NoHandOff as HandOffLimit: every release goes through Redis, past no other process. Other negative values are errors.
	NoHandOff = -1
)

// MaxLease is the longest lease and the longest of any time that is sent to Redis as one: a hundred years of 365 days. Redis keeps an
// expiry as an absolute int64 of milliseconds and would take more, but time.Duration ends at 292 years, and a write hold that is
// re-entered adds lease to lease (wire-protocol.md §6); this leaves room to add two and a margin.
const MaxLease = 100 * 365 * 24 * time.Hour

// driftFloor is the part of the drift margin that does not depend on the lease: one millisecond for the precision of Redis's own
// expiry, and one for the rounding of the lease to whole milliseconds.
const driftFloor = 2 * time.Millisecond

// Trust returns how much of a lease may be relied upon, counted from before the acquire or the renewal was sent:
//
//	lease − lease·DriftMargin − 2 ms, but never less than lease/2
//
// The margin is the clock drift of the Redlock algorithm: the server measures the lease with its clock, the client with its own, and
// of two clocks one runs faster. The lower bound keeps leases of a few milliseconds usable, where the margin would leave nothing.
// A lease of zero or less has no trust: 0. A DriftMargin that WithDefaults would refuse, or zero, counts as the default, so that
// a Config which was never validated errs on the careful side.
func (c Config) Trust(lease time.Duration) time.Duration {
	if lease <= 0 {
		return 0
	}
	drift := c.DriftMargin
	if !validDrift(drift) {
		drift = DefaultDriftMargin
	}
	margin := time.Duration(math.Ceil(float64(lease)*drift)) + driftFloor
	return max(lease-margin, lease/2)
}

func validDrift(d float64) bool { return d > 0 && d < 0.5 }

// Retries returns how often a failed command is sent again: RetryAttempts, or 0 for NoRetry.
func (c Config) Retries() int { return max(c.RetryAttempts, 0) }
