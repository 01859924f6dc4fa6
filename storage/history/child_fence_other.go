//go:build cgo && !linux

package history

// fenceProcess has nothing to set here: DuckDB's own limits and the parent's deadline are the fences.
func fenceProcess(int64) error { return nil }

// giveWay does nothing here.
func giveWay() {}
