package windows

// Tumbling windows lie side by side, each Size long.
type Tumbling struct {
	Size Interval
}

// Window is the one window that holds t.
func (w Tumbling) Window(t Micros) (start, end Micros) {
	start = w.Size.Bucket(t)
	return start, w.Size.Add(start)
}
