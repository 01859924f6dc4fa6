package windows

// Hopping windows begin every Slide and are Size long: they overlap where Size is longer than
// Slide, and leave holes where it is shorter.
type Hopping struct {
	Slide, Size Interval
}

// AppendWindows appends start and end of each window that holds t, the latest first. It appends
// nothing where t lies in a hole.
func (w Hopping) AppendWindows(dst []Micros, t Micros) []Micros {
	start := w.Slide.Bucket(t)
	for {
		end := w.Size.Add(start)
		if end <= t {
			return dst
		}
		dst = append(dst, start, end)
		if span, ok := w.Slide.Span(); ok {
			start -= span
		} else {
			start = w.Slide.Bucket(start - 1)
		}
	}
}

// Last is the latest window that holds t; ok is false where t lies in a hole.
func (w Hopping) Last(t Micros) (start, end Micros, ok bool) {
	start = w.Slide.Bucket(t)
	end = w.Size.Add(start)
	return start, end, end > t
}
