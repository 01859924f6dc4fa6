// Tidemark is real-time analytics in one binary. Command tidemark is all of it: the server, the
// demo, and the commands that talk to a running server.
//
// main.go reads as the life of the process; each command lies in a file of its own. Everything
// that the server needs is wired in wire.go and nowhere else: the packages below it know only
// what stands on the right of the arrows
//
//	cmd → web, ingest, windows, migrations → stream → storage
//
// which arch_test.go holds.
package main
