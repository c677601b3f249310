package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// shortest is the shortest pause of a settler with its jitter.
const shortest = 75 * time.Millisecond

// stalePace is a settler's pace after a server has failed to settle for long.
func stalePace() *rounds {
	r := newRounds()
	<-r.due.C
	for range 20 {
		r.again(false)
	}
	return r
}

func TestServerThatCanNotSettleIsAskedMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		<-r.due.C
		require.Greater(t, time.Since(began), 2*time.Second)
	})
}

func TestNewDebtorDoesNotWaitForThePaceOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		r.hurry()
		<-r.due.C
		require.LessOrEqual(t, time.Since(began), shortest)
		require.Positive(t, time.Since(began), "not in a loop")
	})
}

// However many debts come one after the other, the next round comes.
func TestStreamOfDebtsDoesNotPutOffTheSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		for {
			select {
			case <-r.due.C:
				require.LessOrEqual(t, time.Since(began), shortest)
				return
			default:
			}
			require.LessOrEqual(t, time.Since(began), shortest)
			r.hurry()
			time.Sleep(time.Millisecond)
		}
	})
}
