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

// redissonYAML is the configuration for the server that the Go workers use. JSON is YAML, and quotes every password
// rightly.
func redissonYAML(cfg config.Config, lease time.Duration) (string, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return "", err
	}
	where := cfg.Servers.Addresses()[0]
	if where.Network != "tcp" {
		return "", fmt.Errorf("the JVM can't reach %s: use a redis:// or rediss:// address with --java", where)
	}
	scheme := "redis://"
	if cfg.TLS != nil {
		if cfg.TLS.RootCAs != nil {
			return "", errors.New("the JVM trusts the certificates of its own store alone: --tls-ca can't be used with --java")
		}
		scheme = "rediss://"
	}
	server := map[string]any{
		"address": scheme + where.Addr, "database": cfg.Database,
		"connectionPoolSize": 4, "connectionMinimumIdleSize": 1, "subscriptionConnectionMinimumIdleSize": 1,
	}
	if cfg.Password != "" {
		server["password"] = cfg.Password
	}
	if cfg.Username != "" {
		server["username"] = cfg.Username
	}
	text, err := json.Marshal(map[string]any{
		"singleServerConfig": server, "threads": 4, "nettyThreads": 4, "lockWatchdogTimeout": lease.Milliseconds(),
	})
	return string(text), err
}
