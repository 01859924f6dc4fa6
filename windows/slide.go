package windows

// Sliding windows: one for each distinct event time t of a key, over the events of the key with
// times in [t − Size, t], both ends in. Its start is t − Size and its end t.
type Sliding struct {
	Size Micros
}

// Own is the window that an event at t makes.
func (w Sliding) Own(t Micros) (start, end Micros) { return earlier(t, w.Size), t }

// Holds reports whether the window that ends at end holds an event at t.
func (w Sliding) Holds(t, end Micros) bool { return t <= end && earlier(end, w.Size) <= t }
