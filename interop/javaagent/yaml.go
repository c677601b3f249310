package javaagent

import (
	"fmt"
	"strings"
)

// smallPools opens connections as they are needed instead of the default's 24 per node at the start. The upper limit for
// subscriptions stays Redisson's own, since each waiter of a fair lock needs one.
const smallPools = `  %[1]sonnectionPoolSize: 8
  %[1]sonnectionMinimumIdleSize: 1
`

// YAMLSingle is a redisson.yaml for one server at addr, "host:port" or a redis:// or rediss:// URL. Further lines for the
// top level, such as "lockWatchdogTimeout: 3000", may follow. Like the others it uses only settings that every release
// from 3.16.8 on knows.
func YAMLSingle(addr string, topLevel ...string) string {
	return "singleServerConfig:\n" +
		"  address: " + quote(address(addr)) + "\n" +
		fmt.Sprintf(smallPools, "c") +
		"  subscriptionConnectionMinimumIdleSize: 1\n" +
		tuning(topLevel)
}

// YAMLCluster is a redisson.yaml for a cluster of which these nodes are known. It looks for changes of the topology once
// a second.
func YAMLCluster(addrs []string, topLevel ...string) string {
	return "clusterServersConfig:\n" +
		"  nodeAddresses:\n" + list(addrs) +
		"  scanInterval: 1000\n" +
		masterAndReplicas() +
		tuning(topLevel)
}

// YAMLSentinel is a redisson.yaml for the master of this name, as these sentinels know it. One sentinel is enough.
func YAMLSentinel(masterName string, sentinels []string, topLevel ...string) string {
	return "sentinelServersConfig:\n" +
		"  masterName: " + quote(masterName) + "\n" +
		"  sentinelAddresses:\n" + list(sentinels) +
		"  checkSentinelsList: false\n" +
		"  scanInterval: 1000\n" +
		masterAndReplicas() +
		tuning(topLevel)
}

// YAMLMasterSlave is a redisson.yaml for a master and its replicas, whose roles stay what they are.
func YAMLMasterSlave(master string, slaves []string, topLevel ...string) string {
	return "masterSlaveServersConfig:\n" +
		"  masterAddress: " + quote(address(master)) + "\n" +
		"  slaveAddresses:\n" + list(slaves) +
		masterAndReplicas() +
		tuning(topLevel)
}

// YAMLReplicated is a redisson.yaml for servers of which one is the master, which they are asked for once a second.
func YAMLReplicated(addrs []string, topLevel ...string) string {
	return "replicatedServersConfig:\n" +
		"  nodeAddresses:\n" + list(addrs) +
		"  scanInterval: 1000\n" +
		masterAndReplicas() +
		tuning(topLevel)
}

func masterAndReplicas() string {
	return fmt.Sprintf(smallPools, "masterC") +
		fmt.Sprintf(smallPools, "slaveC") +
		"  subscriptionConnectionMinimumIdleSize: 1\n"
}

func tuning(topLevel []string) string {
	lines := append([]string{"threads: 4", "nettyThreads: 4"}, topLevel...)
	return strings.Join(lines, "\n") + "\n"
}

func list(addrs []string) string {
	var b strings.Builder
	for _, addr := range addrs {
		b.WriteString("    - " + quote(address(addr)) + "\n")
	}
	return b.String()
}

func address(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	return "redis://" + addr
}

// quote writes a YAML string in single quotes, in which only the quote itself is special.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
