// Command redlatch shows Redlatch at work, runs commands under a lock, and lists the scripts that Redlatch runs on the server.
//
//	redlatch demo              several workers contend for one lock, live in the terminal
//	redlatch run NAME -- CMD   take the lock, run the command, release
//	redlatch scripts           the catalog of Lua scripts
//	redlatch version           what this program was built from
//
// "redlatch help" says more, exit codes included.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
