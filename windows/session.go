package windows

// Sessions are runs of events of one key at most Gap apart. A session begins at its first event
// and ends a gap after its last.
type Sessions struct {
	Gap Micros
}

// Own is the session that an event would be alone.
func (w Sessions) Own(t Micros) (start, end Micros) { return t, Later(t, w.Gap) }

// Joins reports whether an event at t belongs to the session [start, end): its own window touches
// the session's, the very ends included.
func (w Sessions) Joins(t, start, end Micros) bool {
	return t <= end && start <= Later(t, w.Gap)
}
