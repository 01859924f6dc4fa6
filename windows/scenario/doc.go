// Package scenario holds the proof that a view gives the batch answer, and nothing else: it is the
// one place in which the engine and DuckDB meet, and it has tests only.
//
// A scenario is a file of testdata that a reader can understand: streams, a view, what is sent, and
// what is expected in place. Its name is what it claims. Each runs by every road:
//
//	as written       with a Take wherever the file looks
//	one batch        neighbouring batches of a partition as one, and everything taken at the end
//	event by event   each event in a batch of its own
//	crash, reopen    after each entry, and after every third, from what was written alone
//	from zero        a rebuild: the same final and corrected changes
//	partitions       1, 3 and 8, where nothing is refused and nothing depends on order
//	DuckDB           the view's SQL over the events that were taken (T1)
//	the server       the real runtime over the real log, crashed in between
//
// What the windows refused is not asked of the engine: windows/judge works it out. Random views
// (random_test.go) go the same roads with drawn streams, events and SQL.
//
//	go test ./windows/scenario -run Scenario -update     writes the expected output anew
//	TIDEMARK_LONG=1 TIDEMARK_N=20000 TIDEMARK_SEED=7 go test ./windows/scenario -run Random
package scenario
