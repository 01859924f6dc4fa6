// Package logtest is the suite that every driver of [stream.Log] passes.
//
// A driver hands in a function that opens a log, and opens it again with what it held, on a clock
// that the suite moves. What a driver can't do is a field of [Features], not a skipped test.
package logtest
