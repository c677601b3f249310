//go:build contract

package locktest

// full: each wiring runs on all topologies.
const full = true
