package locktest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is a package's TestMain. It lets so many tests run at a time, more than there are processors, since most of them wait for a
// server or for a lease; ends the servers that promises had on loan; and fails when a goroutine is left.
func Main(m *testing.M, parallel int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(suite{m})
}

// suite is all tests of a package, with the end of what they share.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if err := endPools(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// A topology of several servers takes seconds to start, so promises share some. Each is lent to one promise at a time, and is
// empty and deaf again when the next one has it.
const (
	poolSize      = 4
	launchTimeout = 5 * time.Minute
)

// pool lends out topologies of one kind, which it launches when they are needed first.
type pool struct {
	launch func(ctx context.Context) (*ensemble, error)
	idle   chan *ensemble
	unborn chan struct{} // one for each that may still be launched
}

func newPool(launch func(ctx context.Context) (*ensemble, error)) *pool {
	p := &pool{launch: launch, idle: make(chan *ensemble, poolSize), unborn: make(chan struct{}, poolSize)}
	for range poolSize {
		p.unborn <- struct{}{}
	}
	return p
}

// lend gives one to a test, for its length.
func (p *pool) lend(t testing.TB) *Site {
	t.Helper()
	e, err := p.take()
	if err != nil {
		t.Fatalf("locktest: launch the servers of a topology: %v", err)
	}
	t.Cleanup(func() { p.takeBack(t, e) })
	return e.site()
}

func (p *pool) take() (*ensemble, error) {
	select {
	case e := <-p.idle:
		return e, nil
	default:
	}
	select {
	case e := <-p.idle:
		return e, nil
	case <-p.unborn:
	}
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	e, err := p.launch(ctx)
	if err != nil {
		p.unborn <- struct{}{}
	}
	return e, err
}

// takeBack makes sure that nothing is left. A topology on which a test failed is not used again.
func (p *pool) takeBack(t testing.TB, e *ensemble) {
	t.Helper()
	err := e.reset()
	if err == nil && !t.Failed() {
		p.idle <- e
		return
	}
	if err != nil {
		t.Errorf("locktest: the servers are not as they were: %v", err)
	}
	t.Logf("output of the servers:\n%s", e.logs())
	if err := e.close(); err != nil {
		t.Errorf("locktest: end the servers of a topology: %v", err)
	}
	p.unborn <- struct{}{}
}

// end closes what is not on loan, which is everything when all tests have ended.
func (p *pool) end() error {
	var errs []error
	for {
		select {
		case e := <-p.idle:
			errs = append(errs, e.close())
		default:
			return errors.Join(errs...)
		}
	}
}

func endPools() error {
	all := []*pool{clusters, sentinels, masterSlaves, replicated}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = p.end() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
