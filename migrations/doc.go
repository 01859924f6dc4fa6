// Package migrations raises data directories of older formats, step by step.
//
// A directory's format is the number in its FORMAT file; what it covers is listed in package storage.
// A step takes a directory from one format to the next. Steps are numbered and frozen: once released,
// a step is never changed, because some directory was raised by it as it was. A step may be run
// twice: after a crash the number in FORMAT still is the old one, and the step begins again.
//
//	format 1  the first one
//
// Formats of single records (batches, states, the witness) carry versions of their own and are read
// as they are; a new version of one needs a step only when old records must be rewritten.
//
// testdata holds a small directory of each released format; a test opens every one and reads what
// was written into it.
package migrations
