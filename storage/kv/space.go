package kv

// Space is the first byte of a key: the part of the store that the key belongs to. The letters are
// stored and never change.
type Space byte

// The key spaces.
const (
	Meta        Space = 'm' // the log's identity, counters of internal numbers
	Catalog     Space = 'c' // streams, views, alerts, dashboards, keys
	Batches     Space = 'b' // record batches by stream, partition, base offset
	Sequences   Space = 'q' // sequence index and control records by stream, sequence
	IDs         Space = 'i' // ids of events by stream, hour
	Idempotency Space = 'k' // answers under idempotency keys by hour
	DeadLetters Space = 'd' // dead letters by stream, number
	Counters    Space = 'n' // settings, counters and partition states by stream
	Groups      Space = 'g' // committed offsets and acknowledgements by stream or alert
	State       Space = 's' // operator state by view
	Rows        Space = 'o' // output rows by view
	Changes     Space = 'x' // change streams by view
	Late        Space = 'l' // late records by view
	RowErrors   Space = 'e' // row errors by view
	AlertLogs   Space = 'a' // alerts by rule
	AlertRules  Space = 'v' // versions of a rule under which standing alarms fired, by rule
)

// PrefixEnd returns the first key behind all keys that begin with prefix; nil when there is none.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
