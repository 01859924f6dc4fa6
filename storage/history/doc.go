// Package history asks the past: it keeps the rows of streams and the changes of views in one
// DuckDB file and answers SQL over them. It is the only package that knows DuckDB.
//
// DuckDB is a guest that is not trusted with the server's life: one SELECT can take all memory,
// outlive its deadline by half a minute or end its process. So the file is opened by a child
// process of the same binary alone, and this process only lets DuckDB parse:
//
//	caller ── ParseSQL, Gate ──▶ parser (an empty DuckDB in this process, one thread)
//	caller ── Apply, Query ──▶ History ── HTTP over a unix socket ──▶ child: DuckDB and its file
//
// The files of the child's side are named child*.go, what both sides say to each other is in
// wire.go. The child's entry is [ChildMain], a hook that main and every TestMain that opens
// history call first.
//
// Invariants:
//
//	I1  A text that ends in DuckDB was parsed, passed the gate, and was written anew from its
//	    tree: the user's own text is never run.
//	I2  A relation's position is written in the transaction of the rows it stands for, so a batch
//	    is applied once however often it is sent.
//	I3  The file is derived: losing it loses nothing. One that will not open is set aside, and
//	    positions start from nil.
//	I4  A query ends at its deadline + 200 ms at the latest: by itself, by its interrupt, or with
//	    its process. Other queries that run then are repeated once, loads go on from their position.
//	I5  Schema changes are transactions of their own and end in a checkpoint: DuckDB's log is at
//	    its weakest when it replays data behind DDL. There is no index and no upsert.
//
// Tables: a stream's table has its name and its columns. A view is kept as the table
// <view>_changes of its changes, and as the DuckDB view <view>, which sums their weights.
// Positions are in tidemark.relations, out of the gate's reach.
package history
