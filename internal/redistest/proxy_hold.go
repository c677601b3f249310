package redistest

import (
	"fmt"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const holdToxicType = "redistest-hold"

func init() { toxics.Register(holdToxicType, new(holdToxic)) }

// holdToxic keeps what it is given and passes it on when it is taken out of the line. Toxiproxy has nothing of the kind:
// its own toxics lose data or pass it on by the clock.
type holdToxic struct{}

var (
	_ toxics.StatefulToxic = (*holdToxic)(nil)
	_ toxics.CleanupToxic  = (*holdToxic)(nil)
)

// heldChunks is what one connection has kept. Toxiproxy runs one goroutine at a time on it.
type heldChunks struct{ chunks []*stream.StreamChunk }

func heldBy(stub *toxics.ToxicStub) *heldChunks {
	held, ok := stub.State.(*heldChunks)
	if !ok {
		panic(fmt.Sprintf("redistest: toxiproxy runs %s on the state of another toxic, a %T", holdToxicType, stub.State))
	}
	return held
}

// NewState is called once for each connection.
func (*holdToxic) NewState() any { return new(heldChunks) }

// Pipe is called again, on the same state, whenever the line behind it has been changed.
func (*holdToxic) Pipe(stub *toxics.ToxicStub) {
	held := heldBy(stub)
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil { // the server's side is closed
				stub.Close()
				return
			}
			held.chunks = append(held.chunks, chunk)
		}
	}
}

// Cleanup delivers, before anything newer can pass.
func (*holdToxic) Cleanup(stub *toxics.ToxicStub) {
	held := heldBy(stub)
	for _, chunk := range held.chunks {
		// A client that is gone takes nothing more; the rest would only wait in vain.
		if stub.WriteOutput(chunk, time.Second) != nil {
			break
		}
	}
	held.chunks = nil
}
