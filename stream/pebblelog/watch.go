package pebblelog

import (
	"slices"

	"tidemark/stream"
)

// watcher is somebody who wants to hear of commits on some streams, or on all.
type watcher struct {
	ids []stream.ID
	ch  chan struct{}
}

// Watch returns a channel that receives after each commit that touched one of the streams.
func (l *Log) Watch(ids ...stream.ID) (<-chan struct{}, func()) {
	w := &watcher{ids: slices.Clone(ids), ch: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.watchers[w] = struct{}{}
	return w.ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.mu.watchers, w)
	}
}

// notifyLocked tells the watchers of the streams that a commit touched.
func (l *Log) notifyLocked(touched map[stream.ID]*streamState) {
	for w := range l.mu.watchers {
		wanted := len(w.ids) == 0
		for _, id := range w.ids {
			if _, ok := touched[id]; ok {
				wanted = true
			}
		}
		if !wanted {
			continue
		}
		select {
		case w.ch <- struct{}{}:
		default: // it has not heard the one before: one signal stands for both
		}
	}
}
