// Package redisgate is the gate for keys in Redis: it refuses the write of a holder whose fencing token is older than one that has
// written the key. Package gate describes what gates are for.
//
// # Overview
//
//	stock := redisgate.New(client) // any rueidis client; it need not be the Redis that the lock is in
//	err := stock.Set(ctx, "stock:1001", hold.Token(), "12", 0)
//	if errors.Is(err, gate.ErrStale) {
//		return err // the lock has passed to somebody else: give up
//	}
//
// # What is guaranteed
//
// Check and write are one script (fence_set of package lua), so nothing comes between them. Tokens are compared exactly, over all 64
// bits.
//
// # What is not
//
// Whoever writes the key by other commands passes the gate by. Redis can lose the last writes in a crash or a failover, data and
// fence alike; a late writer is then refused by what the fence was before.
//
// # Data in Redis
//
// Beside each key stands its fence, a string with the newest token: redlatch_fence:{key}, or redlatch_fence:key when the key has
// a "{" in it (see FenceKey). Both are in one slot of a cluster, except for a key whose braces are no hash tag, such as "a}b": on
// a cluster that is an error before anything is sent.
//
// A fence stays when its key is deleted or expires, for it is then that a late writer would bring the key back. It has no TTL, and must
// not be evicted: use a maxmemory-policy of noeviction or volatile-*. For keys without number WithRetention gives fences a TTL,
// counted from the last write; it is a promise that no writer is later than that.
package redisgate
