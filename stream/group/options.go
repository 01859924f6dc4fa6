package group

import (
	"log/slog"
	"time"
)

// Options are how groups behave. Zero fields are the defaults.
type Options struct {
	// MaxAttempts is after how many failed attempts an event becomes a dead letter of the group (5).
	MaxAttempts int
	// Session is how long a member may be silent before its partitions go to others, unless it asks
	// for another time itself (30 s). A poll that waits is no silence.
	Session time.Duration
	// MaxGroups and MaxMembers bound the groups of a stream and the members of a group (1,000 each).
	MaxGroups, MaxMembers int
	// MaxBytes bounds the events of one poll (16 MiB).
	MaxBytes int
	// Now is the wall clock: lags and dead letters are told in it.
	Now func() time.Time
	// Monotonic is the clock of sessions.
	Monotonic func() time.Duration
	// Writable returns why nothing may be written now: the disk is nearly full, for example. Nil:
	// it always may.
	Writable func() error
	// Logger takes what operators should know. Nil: slog's default.
	Logger *slog.Logger
}

// Bounds of what members may ask for.
const (
	MaxEvents  = 10_000
	MaxWait    = time.Minute
	MinSession = time.Second
	MaxSession = time.Hour
	// MaxReason is how many bytes of a nack's reason are kept.
	MaxReason = 4096
)

// WithDefaults returns a copy with the zero fields filled in.
func (o Options) WithDefaults() Options {
	fill := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	fill(&o.MaxAttempts, 5)
	fill(&o.MaxGroups, 1000)
	fill(&o.MaxMembers, 1000)
	fill(&o.MaxBytes, 16<<20)
	if o.Session == 0 {
		o.Session = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Monotonic == nil {
		start := time.Now()
		o.Monotonic = func() time.Duration { return time.Since(start) }
	}
	if o.Writable == nil {
		o.Writable = func() error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
