package engine

import (
	"tidemark/stream"
	"tidemark/windows"
)

// Output is what came of the entries since the last Take. It is the caller's.
type Output struct {
	// Changes are in the order in which they were made; provisional ones come last.
	Changes *windows.Changes
	Late    []LateRecord
	// RowErrors are changes of the list of row errors.
	RowErrors []RowError
	// Counts are those of the view since its beginning.
	Counts Counts
	// Watermark is the view's, or windows.NoWatermark.
	Watermark windows.Micros
	// Writes keep the state of the engine; together with those of all Takes before it is what
	// Load brings back.
	Writes []Write
}

// Write sets the value of a key, or deletes the key when Value is nil.
type Write struct {
	Key, Value []byte
}

// Counts of a view, from its beginning.
type Counts struct {
	// Events is how many events of its streams the view has read.
	Events int64 `json:"events"`
	// Each late event counts in one of these three, the first that applies (L5): refused and taken
	// nowhere, refused by some windows and taken by others, taken by a window that was final.
	LateDropped   int64 `json:"late_dropped"`
	LatePartial   int64 `json:"late_partial"`
	LateCorrected int64 `json:"late_corrected"`
	// RowErrors is the length of the list of row errors.
	RowErrors int64 `json:"row_errors"`
	// Filtered is how many events no WHERE let through.
	Filtered int64 `json:"filtered"`
}

// LateOutcome says what became of a late event of which a record is kept.
type LateOutcome string

// The outcomes of late records.
const (
	LateDropped LateOutcome = "late_dropped"
	LatePartial LateOutcome = "late_partial"
)

// LateRecord tells of one event that a window refused (L5).
type LateRecord struct {
	Stream    stream.ID
	Place     stream.Place
	Sequence  stream.Sequence
	Time      windows.Micros // the event's time
	Watermark windows.Micros // the watermark that the event met
	Outcome   LateOutcome
	Refused   []Refusal
}

// Refusal is a window that refused an event.
type Refusal struct {
	// Function is the number of the window function, in the order of the text, from 0.
	Function   int
	Start, End windows.Micros
}

// RowError puts a row on the list of row errors, or takes it off (Weight −1).
type RowError struct {
	Stream   stream.ID
	Place    stream.Place // of an event
	Sequence stream.Sequence
	Weight   int8
	Code     string
	Message  string
}
