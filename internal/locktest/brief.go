//go:build !contract

package locktest

// full: each wiring runs on the topologies that its test names. The build tag "contract" has it run on all of them.
const full = false
