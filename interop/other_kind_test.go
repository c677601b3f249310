package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
)

// otherKind: a lock of another kind is told, and what of it is Redisson's way (RL-20; wire-protocol.md §14).
func otherKind(t *testing.T, p pair) {
	if p.first == party(p.inJava) {
		meetsJavasOtherKind(t, p)
		return
	}
	javaMeetsOtherKind(t, p)
}

// meetsJavasOtherKind: Go is told what Java holds, and with the option sees it as Java itself does.
func meetsJavasOtherKind(t *testing.T, p pair) {
	relaxed := *p.fleet
	relaxed.cfg.SkipKindCheck = true
	easy := relaxed.goClient(t)
	alike := []kind{plain, spin, once, fair, fairOnce, fenced}
	for _, held := range []kind{read, write} {
		holder := newJavaParty(t, p.javaClient, "holder", held, p.name)
		require.NoError(t, holder.lock(bounded(t), 0))
		for _, k := range alike {
			requireOtherKind(t, p.goClient, k, p.name, "a read/write lock in mode "+held.name)
			requireNotAcquired(t, easy, k, p.name)
			require.False(t, try(t, newJavaParty(t, p.javaClient, "other", k, p.name), 0, 0), "the standard: Java's %s waits", k.name)
		}
		require.NoError(t, holder.unlock(bounded(t)))
	}
	for _, held := range alike {
		holder := newJavaParty(t, p.javaClient, "holder", held, p.name)
		require.NoError(t, holder.lock(bounded(t), 0))
		for _, k := range []kind{read, write} {
			requireOtherKind(t, p.goClient, k, p.name, "a plain, fair or fenced lock")
		}
		for _, k := range alike {
			requireNotAcquired(t, p.goClient, k, p.name)
		}
		require.NoError(t, holder.unlock(bounded(t)))
	}
	require.Empty(t, leftOvers(t, p.fleet))

	// Redisson's reader enters beside the holder of a plain lock, and so does Go's if it does not look.
	holder, reader := newJavaParty(t, p.javaClient, "holder", plain, p.name), newGoParty(easy, read, p.name)
	require.NoError(t, holder.lock(bounded(t), 0))
	require.True(t, try(t, newJavaParty(t, p.javaClient, "reader", read, p.name), 0, 0))
	require.True(t, try(t, reader, 0, 0))
	require.NoError(t, holder.unlock(bounded(t)), "which deletes it all")
	require.ErrorIs(t, reader.unlock(bounded(t)), errNotHeld)
	require.Empty(t, onlyLocks(leftOvers(t, p.fleet), p.name))
}

// javaMeetsOtherKind: Redisson looks at nothing. Who loses by that in Go is told.
func javaMeetsOtherKind(t *testing.T, p pair) {
	reader := newGoParty(p.goClient, read, p.name)
	require.NoError(t, reader.lock(bounded(t), 0))
	require.False(t, try(t, p.inJava, 0, 0), "Java's plain lock waits for a reader")
	require.NoError(t, reader.unlock(bounded(t)))

	require.NoError(t, p.inGo.lock(bounded(t), 0))
	javaReader := newJavaParty(t, p.javaClient, "reader", read, p.name)
	require.True(t, try(t, javaReader, 0, 0), "Java's reader enters beside the holder of a plain lock")
	require.ErrorIs(t, p.inGo.lost(bounded(t)), redlatch.ErrLost, "the holder was not told that it is not alone")
	require.ErrorIs(t, p.inGo.unlock(bounded(t)), errNotHeld)
	require.NoError(t, javaReader.unlock(bounded(t)), "the reader's lock must not go with the other's release")
	require.Empty(t, leftOvers(t, p.fleet))
}

func requireOtherKind(t *testing.T, c *redlatch.Client, k kind, name, words string) {
	t.Helper()
	lock := k.inGo(c, name)
	_, err := lock.TryLock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrWrongType, k.name)
	require.ErrorContains(t, err, words, k.name)
	_, err = lock.Lock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrWrongType, k.name)
	_, err = lock.ForceUnlock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrWrongType, k.name)
}

func requireNotAcquired(t *testing.T, c *redlatch.Client, k kind, name string) {
	t.Helper()
	_, err := k.inGo(c, name).TryLock(bounded(t))
	require.ErrorIs(t, err, redlatch.ErrNotAcquired, k.name)
}

// onlyLocks are the keys that are the lock itself; the keys of read holds end by themselves.
func onlyLocks(keys []string, name string) (locks []string) {
	for _, key := range keys {
		if key == name {
			locks = append(locks, key)
		}
	}
	return locks
}
