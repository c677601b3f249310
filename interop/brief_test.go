//go:build !crowd

package interop

// everything: the build tag crowd has all topics run on every topology, which takes minutes.
const everything = false
