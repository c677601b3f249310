//go:build crowd

package interop

// everything: all topics run on every topology.
const everything = true
