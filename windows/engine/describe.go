package engine

// Panes is the kind of the entries that are panes.
const Panes = "panes that the windows of a hop share"

// stateKinds says what the entries of a space of the state are.
var stateKinds = map[byte]string{
	spaceGroup:      "groups of an aggregate",
	spacePane:       Panes,
	spacePiece:      "large states, by what changed in them",
	spaceSession:    "bounds of sessions",
	spaceSessionRow: "rows of sessions",
	spaceSlide:      "rows of a slide",
	spacePartition:  "rows of ordered partitions",
	spaceFinal:      "rows that wait until they are final",
	spaceRow:        "rows given out",
	spaceIndex:      "index of groups and rows by time",
	spaceFormat:     "format",
	spaceTracker:    "watermarks",
	spaceCounts:     "counts",
}

// Describe says what a key of the state belongs to: a kind of entry, and the number of the operator,
// 0 for the first; −1 where there is one for the whole plan. Operators with state are numbered from
// the rows that come out down to the streams.
func Describe(key []byte) (kind string, operator int) {
	if len(key) == 0 {
		return "", -1
	}
	switch key[0] {
	case spaceTracker, spaceCounts, spaceRow, spaceIndex, spaceFormat:
		return stateKinds[key[0]], -1
	}
	if len(key) < 2 {
		return "", -1
	}
	return stateKinds[key[0]], int(key[1])
}
