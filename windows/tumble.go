package windows

// Tumbling windows lie side by side, each Size long. With a Zone they are calendar windows of it
// (Z1), and Size is whole days or months.
type Tumbling struct {
	Size Interval
	Zone *Zone
}

// Window is the one window that holds t.
func (w Tumbling) Window(t Micros) (start, end Micros) {
	if w.Zone != nil {
		return w.Zone.Window(w.Size, t)
	}
	start = w.Size.Bucket(t)
	return start, w.Size.Add(start)
}
