package pubsub_test

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/pubsub"
)

// A waiter tries again when the server has confirmed its subscription, and then whenever it is woken.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, AlwaysRESP2: true,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	hub := pubsub.New(pubsub.Options{Connect: dedicate(client), Linger: time.Second})
	defer hub.Close()

	waiter := hub.Join("redisson_lock__channel:{order:1001}")
	defer waiter.Leave()
	for !waiter.Confirmed() && waiter.Err() == nil {
		<-waiter.Wake()
	}
	fmt.Println("subscribed, try again")

	server.Publish("redisson_lock__channel:{order:1001}", "0")
	<-waiter.Wake()
	fmt.Println("woken, try again")
	// Output:
	// subscribed, try again
	// woken, try again
}
