package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/interop/javaagent"
)

const (
	javaName = "java-1"
	// javaBound is how long the JVM may take to finish its last section.
	javaBound = 30 * time.Second
)

// jvm is the contender in Java: a real Redisson in a process of its own.
type jvm struct {
	agent  *javaagent.Agent
	client *javaagent.Client
}

// startJVM builds the agent if need be, starts it and connects it to the server.
func startJVM(ctx context.Context, o *Options, cfg config.Config) (*jvm, error) {
	yaml, err := redissonYAML(cfg, o.Lease)
	if err != nil {
		return nil, err
	}
	if o.Progress != nil {
		o.Progress("starting a JVM with Redisson; the first time Maven builds the agent, which can take a minute")
	}
	agent, err := javaagent.Start(ctx, javaagent.Options{})
	if err != nil {
		return nil, err
	}
	client, err := agent.Open(ctx, "demo", yaml)
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	return &jvm{agent, client}, nil
}

func (j *jvm) about() string { return "Redisson " + j.agent.Redisson() + " on Java " + j.agent.Java() }

func (j *jvm) close() error {
	if err := j.agent.Close(); err != nil {
		return fmt.Errorf("end the JVM: %w", err)
	}
	return nil
}

// contend lets the JVM do the same sections as the Go workers, until stop ends.
func (j *jvm) contend(stop context.Context, s *stage) error {
	var done Share
	var err error
	for section := 1; err == nil && stop.Err() == nil; section++ {
		mode := s.Kind.mode(s.Workers, section)
		var result javaagent.ContentionResult
		result, err = j.section(stop, s, section, mode)
		s.board.found(int(result.Overlaps))
		if result.Sections > 0 {
			done.add(mode)
		}
	}
	s.board.finished(javaName, done)
	if err != nil {
		s.board.say(Event{Worker: javaName, Kind: Failed, Detail: err.Error()})
		return fmt.Errorf("%s: %w", javaName, err)
	}
	s.board.say(Event{Worker: javaName, Kind: Left})
	return nil
}

// section is one section, and the pause after it; none when stop ends before the lock is there.
func (j *jvm) section(stop context.Context, s *stage, number int, mode Mode) (javaagent.ContentionResult, error) {
	work := javaagent.Contention{
		Lock: s.Kind.Java(s.Name), Sections: 1, CounterKey: s.keys.counter, Hold: s.Hold, Pause: s.Hold / 4, Shared: mode == Reads,
	}
	if mode == Reads {
		work.Lock = s.Kind.JavaReader(s.Name)
	}
	work.InsideKey, work.BesideKey = s.keys.gauges(mode)
	running := j.client.Contend(work, func(e javaagent.Event) {
		s.board.tell(Event{At: s.board.since(e.At), Worker: javaName, Kind: EventKind(e.Kind), Section: number, Mode: mode})
	})
	select {
	case <-stop.Done():
	case <-running.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), javaBound)
	defer cancel()
	stopErr := running.Stop(ctx)
	result, err := running.Wait(ctx)
	if err == nil {
		err = stopErr
	}
	return result, err
}

// redissonYAML is the configuration for the servers that the Go workers use. JSON is YAML, and quotes every password
// rightly.
func redissonYAML(cfg config.Config, lease time.Duration) (string, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return "", err
	}
	if cfg.NATMapper != nil {
		return "", errors.New("the JVM does not know the natMapper: it can't be used with --java")
	}
	addresses, err := redissonAddresses(cfg)
	if err != nil {
		return "", err
	}
	name, section := redissonSection(cfg.Servers, addresses)
	if cfg.Password != "" {
		section["password"] = cfg.Password
	}
	if cfg.Username != "" {
		section["username"] = cfg.Username
	}
	if cfg.SentinelPassword != "" {
		section["sentinelPassword"] = cfg.SentinelPassword
	}
	if cfg.SentinelUsername != "" {
		section["sentinelUsername"] = cfg.SentinelUsername
	}
	switch cfg.Servers.Mode() {
	case config.ModeCluster: // has no databases, but may have sharded messages
		section["shardedSubscriptionMode"] = cfg.ShardedSubscriptionMode
	default:
		section["database"] = cfg.Database
	}
	section["subscriptionConnectionMinimumIdleSize"] = 1
	text, err := json.Marshal(map[string]any{name: section, "threads": 4, "nettyThreads": 4, "lockWatchdogTimeout": lease.Milliseconds()})
	return string(text), err
}

// redissonAddresses are the addresses with the scheme that Redisson demands.
func redissonAddresses(cfg config.Config) ([]string, error) {
	scheme := "redis://"
	if cfg.TLS != nil {
		if cfg.TLS.RootCAs != nil {
			return nil, errors.New("the JVM trusts the certificates of its own store alone: --tls-ca can't be used with --java")
		}
		scheme = "rediss://"
	}
	var list []string
	for _, where := range cfg.Servers.Addresses() {
		if where.Network != "tcp" {
			return nil, fmt.Errorf("the JVM can't reach %s: use a redis:// or rediss:// address with --java", where)
		}
		list = append(list, scheme+where.Addr)
	}
	return list, nil
}

// redissonSection is the section that says where the servers are, with few connections.
func redissonSection(servers config.Servers, addresses []string) (name string, section map[string]any) {
	section = map[string]any{
		"masterConnectionPoolSize": 4, "masterConnectionMinimumIdleSize": 1, "slaveConnectionPoolSize": 4, "slaveConnectionMinimumIdleSize": 1,
	}
	switch servers.Mode() {
	case config.ModeCluster:
		section["nodeAddresses"] = addresses
		return "clusterServersConfig", section
	case config.ModeSentinel:
		section["masterName"], section["sentinelAddresses"] = servers.MasterName(), addresses
		section["checkSentinelsList"] = false // one sentinel is enough
		return "sentinelServersConfig", section
	case config.ModeMasterSlave:
		section["masterAddress"], section["slaveAddresses"] = addresses[0], addresses[1:]
		return "masterSlaveServersConfig", section
	case config.ModeReplicated:
		section["nodeAddresses"] = addresses
		return "replicatedServersConfig", section
	default:
		return "singleServerConfig", map[string]any{"address": addresses[0], "connectionPoolSize": 4, "connectionMinimumIdleSize": 1}
	}
}
