package alert

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
)

// Op is what an alarm does.
type Op string

// The ops.
const (
	Fire     Op = "fire"
	Update   Op = "update"
	Withdraw Op = "withdraw"
)

// Alarm is one entry of an alert's log.
type Alarm struct {
	// Seq is the entry's place in the log of its alert, from 1.
	Seq         uint64          `json:"seq"`
	Position    string          `json:"position"`
	AlertID     string          `json:"alert_id"`
	Rule        string          `json:"rule"`
	RuleVersion int             `json:"rule_version"`
	Op          Op              `json:"op"`
	Revision    int32           `json:"revision"`
	Severity    string          `json:"severity"`
	Title       string          `json:"title"`
	Row         json.RawMessage `json:"row"`
	// EventTime is the row's own time: the end of its window, or its event's time; null without.
	EventTime *string `json:"event_time"`
	EmitTime  string  `json:"emit_time"`
	// Evidence are partition and offset of the events that made this very change, by stream.
	Evidence map[string][][2]int64 `json:"evidence"`
}

var idText = base32.StdEncoding.WithPadding(base32.NoPadding)

// ID is the identity of the alarm of a row (A1): the first 128 bits of the SHA-256 over the rule's
// name, its version and the row key, in base32. Name and version end with a zero byte.
func ID(rule string, version int, rowKey []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00", rule, version)
	h.Write(rowKey)
	return idText.EncodeToString(h.Sum(nil)[:16])
}

// follower writes the alarms of one alert. It belongs to the view's worker.
type follower struct {
	alerts *Service
	meta   runtime.Meta
	words  Words
	seq    uint64 // of the last alarm that was committed, or is in the batch now
	// heirs: some alarms that stand fired under an earlier version of the rule. ended are those of
	// them that were withdrawn since the follower was opened.
	heirs bool
	ended map[string]bool
}

func logKey(id, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(logPrefix(id), seq)
}

func logPrefix(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(kv.AlertLogs)}, id)
}

// open is the attachment's Open.
func (s *Service) open(meta runtime.Meta) (runtime.Follower, error) {
	f := &follower{alerts: s, meta: meta}
	if err := json.Unmarshal(meta.Extra, &f.words); err != nil {
		return nil, fmt.Errorf("alert %s: %w", meta.Name, err)
	}
	var err error
	if f.seq, err = lastSeq(s.kv, meta.ID); err != nil {
		return nil, err
	}
	prefix := rulePrefix(meta.ID)
	it := s.kv.Iter(prefix, kv.PrefixEnd(prefix))
	f.heirs, f.ended = it.First(), map[string]bool{}
	return f, it.Close()
}

func rulePrefix(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(kv.AlertRules)}, id)
}

func ruleKey(id uint64, rowKey []byte) []byte { return append(rulePrefix(id), rowKey...) }

// firedUnder is the version of the rule under which the alarm of a row that stands fired.
func (f *follower) firedUnder(rowKey []byte) (int, error) {
	if f.heirs && !f.ended[string(rowKey)] {
		value, err := f.alerts.kv.Get(ruleKey(f.meta.ID, rowKey))
		if err == nil && len(value) == 8 {
			return int(binary.BigEndian.Uint64(value)), nil
		}
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return 0, err
		}
	}
	return cmp.Or(f.meta.Before, f.meta.Version), nil
}

// end forgets under which version the alarm of a row fired: it is withdrawn.
func (f *follower) end(b *kv.Batch, rowKey []byte) {
	if f.heirs && !f.ended[string(rowKey)] {
		b.Delete(ruleKey(f.meta.ID, rowKey))
		f.ended[string(rowKey)] = true
	}
}

// Inherit implements runtime.Heir: alarms that an edit leaves standing keep their ids.
func (f *follower) Inherit(b *kv.Batch, keys func(func(key []byte) error) error) error {
	b.DeletePrefix(rulePrefix(f.meta.ID))
	return keys(func(key []byte) error {
		version, err := f.firedUnder(key)
		if err == nil {
			b.Set(ruleKey(f.meta.ID, key), binary.BigEndian.AppendUint64(nil, uint64(version)))
		}
		return err
	})
}

// Withdraw implements runtime.Heir: alarms of rows that had other columns are taken back in the words
// of their own version.
func (f *follower) Withdraw(b *kv.Batch, extra json.RawMessage, e *runtime.Epoch) error {
	words := f.words
	defer func() { f.words = words }()
	if err := json.Unmarshal(extra, &f.words); err != nil {
		return fmt.Errorf("alert %s: %w", f.meta.Name, err)
	}
	return f.Epoch(b, e)
}

func lastSeq(store *kv.Store, id uint64) (seq uint64, err error) {
	prefix := logPrefix(id)
	it := store.Iter(prefix, kv.PrefixEnd(prefix))
	if it.Last() {
		seq = binary.BigEndian.Uint64(it.Key()[len(prefix):])
	}
	return seq, it.Close()
}

// Epoch implements runtime.Follower: it adds the alarms of an epoch to its batch.
func (f *follower) Epoch(b *kv.Batch, e *runtime.Epoch) error {
	now := string(row.FormatTimestamp(nil, f.alerts.now().UnixMicro()))
	c := e.Changes
	for i := 0; i < c.Len(); i++ {
		op, at := Fire, i
		if c.Ops[i] < 0 {
			op = Withdraw
			if i+1 < c.Len() && c.Ops[i+1] > 0 && bytes.Equal(c.Keys[i], c.Keys[i+1]) {
				op, at = Update, i+1
				i++
				if sameRow(c.Rows, at-1, at) {
					continue // a change of status alone
				}
			}
		}
		version := f.meta.Version
		if op != Fire {
			var err error
			if version, err = f.firedUnder(c.Keys[at]); err != nil {
				return fmt.Errorf("alert %s: %w", f.meta.Name, err)
			}
		}
		if op == Withdraw {
			f.end(b, c.Keys[at])
		}
		f.seq++
		a := Alarm{
			Seq: f.seq, Position: e.To.String(),
			AlertID: ID(f.meta.Name, version, c.Keys[at]), Rule: f.meta.Name, RuleVersion: version,
			Op: op, Revision: c.Revision[at], Severity: f.words.Severity, Title: f.words.title(e.Fields, c.Rows, at),
			Row: row.AppendJSONRow(nil, e.Fields, c.Rows, at), EmitTime: now, Evidence: map[string][][2]int64{},
		}
		if c.Times != nil && c.Times[at] != windows.NoTime && c.Times[at] != windows.Never {
			text := string(row.FormatTimestamp(nil, c.Times[at]))
			a.EventTime = &text
		}
		if c.Evidence != nil {
			f.evidence(&a, c.Evidence[at])
		}
		text, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("alert %s: %w", f.meta.Name, err)
		}
		b.Set(logKey(f.meta.ID, f.seq), text)
	}
	return nil
}

// evidence names the events by their stream. A rule reads one stream.
func (f *follower) evidence(a *Alarm, places []stream.Place) {
	if len(places) == 0 || len(f.meta.Sources) == 0 {
		return
	}
	list := make([][2]int64, len(places))
	for i, p := range places {
		list[i] = [2]int64{int64(p.Partition), int64(p.Offset)}
	}
	a.Evidence[f.meta.Sources[0]] = list
}

// sameRow reports whether two rows are equal, value by value.
func sameRow(b *row.Batch, i, j int) bool {
	for _, v := range b.Cols {
		if v.IsNull(i) != v.IsNull(j) {
			return false
		}
		if !v.IsNull(i) && !bytes.Equal(row.AppendKey(nil, v, i), row.AppendKey(nil, v, j)) {
			return false
		}
	}
	return true
}
