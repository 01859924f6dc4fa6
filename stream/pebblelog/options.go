package pebblelog

import (
	"log/slog"
	"time"

	"tidemark/stream"
)

// Remembered is a place in the log that somebody has seen.
type Remembered struct {
	Who      string
	Position stream.Position
}

// Options are how a log is opened.
type Options struct {
	// Clock gives append times; nil is time.Now. It may jump: append times never go back.
	Clock func() time.Time
	// Monotonic drives the timers of idle partitions and of clock records; nil is the time since
	// the log was opened.
	Monotonic func() time.Duration
	// TimerPeriod is how often timers are looked at. Zero means 50ms; negative means only when
	// CheckTimers is called.
	TimerPeriod time.Duration
	// QueueBytes and QueueRequests bound what waits for a commit; more gets 429. Zero means 64 MiB
	// and 16,384.
	QueueBytes    int
	QueueRequests int
	// CommitBytes is about how much one commit takes from the queue. Zero means 4 MiB. A greater
	// request is a commit alone.
	CommitBytes int
	// TailBytes bounds the newest batches that stay decoded for readers. Zero means 64 MiB.
	TailBytes int
	// Space tells the free bytes of the disk; nil: not watched. Below MinFree appends get 503 until
	// 1.5 times as much is free.
	Space   func() (free uint64, err error)
	MinFree uint64
	// Witness keeps the file that tells, apart from the store, where the log ended; nil: there is
	// none. A log that ends before that is read only, unless AcceptLoss says that it goes on without
	// what is missing.
	Witness    WitnessFile
	AcceptLoss bool
	// Remembered are places that others have seen in the log, such as views: one of this log past its
	// end is a loss like one that the witness knows of.
	Remembered []Remembered
	// WitnessPeriod is the least time between two writes of the witness. Zero means 700ms; negative
	// means that only Close and SaveWitness write it.
	WitnessPeriod time.Duration
	// KeepPeriod is how often retention and compaction look at the streams. Zero means a minute;
	// negative means only when Keep is called.
	KeepPeriod time.Duration
	// CompactKeys bounds how many keys one pass of compaction holds in memory, 40 bytes each. Zero
	// means 512k.
	CompactKeys int
	// DedupeMax bounds, about, the bytes of the ids that a stream remembers: beyond it whole hours are
	// forgotten before their time. The newest hour stays whatever its size. Zero means 1 GiB.
	DedupeMax int64
	// Logger takes warnings; nil is slog's default.
	Logger *slog.Logger
}

// WithDefaults returns a copy with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Monotonic == nil {
		opened := time.Now()
		o.Monotonic = func() time.Duration { return time.Since(opened) }
	}
	if o.TimerPeriod == 0 {
		o.TimerPeriod = 50 * time.Millisecond
	}
	if o.KeepPeriod == 0 {
		o.KeepPeriod = keeperPeriod
	}
	if o.DedupeMax == 0 {
		o.DedupeMax = 1 << 30
	}
	if o.WitnessPeriod == 0 {
		o.WitnessPeriod = 700 * time.Millisecond
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.QueueBytes, 64<<20)
	def(&o.QueueRequests, 1<<14)
	def(&o.CommitBytes, 4<<20)
	def(&o.TailBytes, 64<<20)
	def(&o.CompactKeys, 1<<19)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
