package engine

import "tidemark/stream"

// Mark sets where a stream stood before the oldest entry that the log still has; it must come before
// the first Step of an engine that begins there (W1).
func (e *Engine) Mark(id stream.ID, m stream.Mark) {
	e.tracker.Mark(id, m)
	e.wm = e.tracker.Watermark()
}
