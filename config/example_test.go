package config_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/config"
)

// Everything but the address has a default.
func ExampleConfig_WithDefaults() {
	cfg, err := config.Config{Servers: config.Single("redis://app:secret@127.0.0.1:6379/3")}.WithDefaults()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Servers, "as", cfg.Username, "database", cfg.Database)
	fmt.Println("a lease of", cfg.LockWatchdogTimeout, "is trusted for", cfg.Trust(cfg.LockWatchdogTimeout))
	// Output:
	// single redis://127.0.0.1:6379 as app database 3
	// a lease of 30s is trusted for 29.698s
}

// All faults come at once, each with the field, its value and what is allowed.
func ExampleConfig_WithDefaults_faults() {
	_, err := config.Config{
		Servers:             config.Single("redis://127.0.0.1:6379"),
		LockWatchdogTimeout: 30 * time.Millisecond,
		HandOffLimit:        -7,
	}.WithDefaults()
	fmt.Println(err)
	// Output:
	// config: LockWatchdogTimeout is 30ms; allowed is 100ms to 876000h0m0s (0 means the default of 30s)
	// config: HandOffLimit is -7; allowed is 1 to 10000, or NoHandOff (0 means the default of 16)
}

// The file of the Java service, with what Go needs in place of a Java class.
func ExampleReadRedissonYAML() {
	cfg, warnings, err := config.ReadRedissonYAML(strings.NewReader(`
singleServerConfig:
  address: "redis://127.0.0.1:6379"
  clientName: "${CLIENT:-orders}"
lockWatchdogTimeout: 20000
nameMapper: !<com.acme.PrefixMapper> {}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range warnings {
		fmt.Println(w)
	}
	cfg.NameMapper = func(name string) string { return "app:" + name }
	fmt.Println(cfg.Servers, "as", cfg.ClientName, "with leases of", cfg.LockWatchdogTimeout)
	fmt.Println(cfg.MapName("order:1001"))
	// Output:
	// line 6: nameMapper: the Java class com.acme.PrefixMapper cannot be used from Go: set Config.NameMapper to a function that gives the same names, or Go and Java do not see each other's locks
	// single redis://127.0.0.1:6379 as orders with leases of 20s
	// app:order:1001 <nil>
}

// A mapper that agrees with the Java services' own, which put "app:" before every name.
func ExampleConfig_MapName() {
	cfg := config.Config{NameMapper: func(name string) string { return "app:" + name }}
	name, err := cfg.MapName("order:1001")
	fmt.Println(name, err)
	fmt.Println(config.Prefixed(config.ChannelPrefix, name))
	// Output:
	// app:order:1001 <nil>
	// redisson_lock__channel:{app:order:1001}
}

// A name with braces in the wrong place would be granted by a cluster and then never released.
func ExampleSlotSafe() {
	fmt.Println(config.SlotSafe("{order}:1001"))
	fmt.Println(config.SlotSafe("a}b"))
	// Output:
	// <nil>
	// bad lock name: "a}b" cannot be used in a cluster: its "}" ends the tag that is put around it too early, so "redisson_lock__channel:{a}b}" is in slot 15495 but the lock itself in slot 7866; use a name without braces, or with one "{tag}" before any other brace
}
