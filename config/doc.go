// Package config holds what a Redlatch client is told before it opens.
package config
