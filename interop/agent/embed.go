// Package agent holds the sources of the Java program that the interoperability tests and the demo run on a real
// Redisson, so that a driver can build it wherever it runs, with or without a checkout of this repository beside it.
//
// README.md describes the program and the lines that it reads and writes; package javaagent drives it.
package agent

import "embed"

// Sources is the Maven project: pom.xml and src.
//
//go:embed pom.xml src
var Sources embed.FS
