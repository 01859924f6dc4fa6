package windows

import (
	"tidemark/storage/row"
	"tidemark/stream"
)

// Status says what a row of a view is worth.
type Status uint8

// The statuses. The numbers are stored.
const (
	// None is the status of a withdrawal of a provisional row (C3).
	None Status = iota
	// Provisional rows may still change: their window is open.
	Provisional
	// Final rows are those that no event on time can change or withdraw; their revision is 1.
	Final
	// Corrected rows changed or appeared after they were final; their revision is 2 or more.
	Corrected
)

// String is the status as users read it; that of None is empty.
func (s Status) String() string {
	switch s {
	case Provisional:
		return "provisional"
	case Final:
		return "final"
	case Corrected:
		return "corrected"
	}
	return ""
}

// ParseStatus reads what String wrote.
func ParseStatus(text string) (Status, bool) {
	for s := None; s <= Corrected; s++ {
		if s.String() == text {
			return s, true
		}
	}
	return None, false
}

// Changes are changes of a view's rows, in order. All slices have one element a change.
// The `-` of an update comes right before its `+`. Of one key at most one row is there at a time.
type Changes struct {
	// Rows holds the view's visible columns. Its weights are not used; see Ops.
	Rows *row.Batch
	// Ops is +1 where the row appears and −1 where it is withdrawn.
	Ops []int8
	// Keys are the row keys (C1), encoded with row.AppendKey column by column.
	Keys [][]byte
	// Status and Revision are the row's; on a withdrawal None and 0, except that the withdrawal of
	// a row that had been final is Corrected and carries the new revision (C3, C4).
	Status   []Status
	Revision []int32
	// Sequences says at which entry of the log each change was made.
	Sequences []stream.Sequence
	// Times is the row's own time, by which retention goes: the latest end of its windows, else
	// the time of its event; NoTime where it has none.
	Times []Micros
	// Evidence lists, for alerts only, the newest events that made the change. Else it is nil.
	Evidence [][]stream.Place
}

// Len is the number of changes.
func (c *Changes) Len() int { return len(c.Ops) }
