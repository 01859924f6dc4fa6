package main

import (
	"os"
	"runtime/debug"
)

// shares is how --memory is shared out. What is left is for sockets and for what requests need
// while they run.
type shares struct {
	// cache and memTable are the store's: a quarter, of which the cache has three. There may be four
	// memtables at once.
	cache, memTable int64
	// state is that of the views; what is over it is left in the store.
	state int64
	// queue holds requests that wait for the log; beyond it they get 429.
	queue int64
	// tail are the newest events, which stay decoded for readers.
	tail int64
}

func shareOut(memory int64) shares {
	store := memory / 4
	return shares{
		cache: store * 3 / 4, memTable: max(min(store/16, 64<<20), 1<<20), state: memory / 2, queue: memory / 10,
		tail: max(min(64<<20, memory/16), 1<<20),
	}
}

// limitHeap lets the garbage collector work harder before the heap takes more than --memory, of which
// the store's part lies outside the heap. GOMEMLIMIT is stronger.
func limitHeap(memory int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory - memory/4)
	}
}
