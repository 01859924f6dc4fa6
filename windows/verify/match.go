package verify

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"tidemark/storage/row"
	"tidemark/windows/runtime"
)

type rawJSON = json.RawMessage

// sampleRows is how many rows of both sides an answer shows.
const sampleRows = 5

// matcher pairs the rows of both sides, those of the batch answer as they come.
type matcher struct {
	live       *runtime.Snapshot
	dimensions []bool
	// loose columns are compared by size, asText ones as JSON because their types differ.
	loose, asText []bool
	// index are the live rows by what is exact of them.
	index   map[string][]int
	matched []bool
	sealed  int // live rows that can't be told
	sample  []Pair
	// extra are rows of the batch answer without a partner, at most MaxDifferences of them.
	extra      *row.Batch
	fields     []row.Field
	extraCount int
	key        []byte
}

func newMatcher(live *runtime.Snapshot, dimensions []bool) *matcher {
	return &matcher{live: live, dimensions: dimensions, matched: make([]bool, live.Rows.Len)}
}

// setAside leaves out the live rows of which f says so by their keys. It comes before the first row.
func (m *matcher) setAside(f func(key []byte) (bool, error)) error {
	for i, key := range m.live.Keys {
		aside, err := f(key)
		if err != nil {
			return err
		}
		if m.matched[i] = aside; aside {
			m.sealed++
		}
	}
	return nil
}

// begin indexes the live rows, once the types of the batch answer are known.
func (m *matcher) begin(fields []row.Field) error {
	if len(fields) != len(m.live.Fields) {
		return unknown("the batch answer has %d columns, the view %d", len(fields), len(m.live.Fields))
	}
	m.fields, m.extra = fields, row.NewBatch(fields, 0)
	m.loose, m.asText = make([]bool, len(fields)), make([]bool, len(fields))
	for c, f := range fields {
		live := m.live.Fields[c].Type
		m.loose[c] = live.Class() == row.Float64Class && f.Type.Class() == row.Float64Class
		m.asText[c] = !m.loose[c] && !live.Equal(f.Type)
	}
	m.index = make(map[string][]int, m.live.Rows.Len)
	for i := range m.live.Rows.Len {
		if m.matched[i] { // set aside
			continue
		}
		m.key = m.exact(m.key[:0], m.live.Rows, i, nil)
		m.index[string(m.key)] = append(m.index[string(m.key)], i)
	}
	return nil
}

// exact is what is exact of a row, of the columns that only names (nil: all).
func (m *matcher) exact(dst []byte, b *row.Batch, i int, only []bool) []byte {
	for c, v := range b.Cols {
		switch {
		case m.loose[c] || only != nil && !only[c]:
		case m.asText[c]:
			at := len(dst)
			dst = append(dst, 0, 0, 0, 0)
			dst = row.AppendJSON(dst, v, i)
			binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at))
		default:
			dst = row.AppendKey(dst, v, i)
		}
	}
	return dst
}

// batch takes rows of the batch answer.
func (m *matcher) batch(fields []row.Field, rows *row.Batch) error {
	if m.index == nil {
		if err := m.begin(fields); err != nil {
			return err
		}
	}
	for i := range rows.Len {
		m.key = m.exact(m.key[:0], rows, i, nil)
		if !m.match(rows, i) {
			if m.extraCount++; m.extraCount <= MaxDifferences {
				m.extra.AppendFrom(rows, i)
			}
		}
	}
	return nil
}

// match finds a partner for a row.
func (m *matcher) match(rows *row.Batch, i int) bool {
	candidates := m.index[string(m.key)]
	for k, live := range candidates {
		if !m.close(live, rows, i) {
			continue
		}
		m.matched[live] = true
		m.index[string(m.key)] = append(candidates[:k:k], candidates[k+1:]...)
		if live >= m.live.Rows.Len-sampleRows {
			m.sample = append(m.sample, Pair{m.text(live), row.AppendJSONRow(nil, m.live.Fields, rows, i)})
		}
		return true
	}
	return false
}

// close compares the floating-point columns.
func (m *matcher) close(live int, rows *row.Batch, i int) bool {
	for c, loose := range m.loose {
		if !loose {
			continue
		}
		a, b := m.live.Rows.Cols[c], rows.Cols[c]
		if a.IsNull(live) != b.IsNull(i) {
			return false
		}
		if a.IsNull(live) {
			continue
		}
		x, y := a.F64[live], b.F64[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= 1e-9*math.Max(math.Abs(x), math.Abs(y))+1e-12) {
			return false
		}
	}
	return true
}

func (m *matcher) text(live int) rawJSON {
	return row.AppendJSONRow(nil, m.live.Fields, m.live.Rows, live)
}

// finish lists the rows without a partner. Two of them that agree in the columns of the row key
// are one row with two values.
func (m *matcher) finish(res *Result) {
	res.Sample = append(res.Sample, m.sample...)
	if m.index == nil { // the batch answer is empty
		for i, aside := range m.matched {
			if aside {
				continue
			}
			if res.DifferenceCount++; len(res.Differences) < MaxDifferences {
				res.Differences = append(res.Differences, Pair{Live: m.text(i)})
			}
		}
		return
	}
	partner := map[string][]int{}
	for i := range m.extra.Len {
		k := string(m.exact(nil, m.extra, i, m.dimensions))
		partner[k] = append(partner[k], i)
	}
	used := make([]bool, m.extra.Len)
	for i, ok := range m.matched {
		if ok {
			continue
		}
		if res.DifferenceCount++; len(res.Differences) == MaxDifferences {
			continue
		}
		p := Pair{Live: m.text(i)}
		k := string(m.exact(nil, m.live.Rows, i, m.dimensions))
		if list := partner[k]; len(list) > 0 {
			used[list[0]] = true
			p.Batch, partner[k] = m.batchText(list[0]), list[1:]
		}
		res.Differences = append(res.Differences, p)
	}
	for i := range m.extra.Len {
		if used[i] {
			continue
		}
		res.DifferenceCount++
		if len(res.Differences) < MaxDifferences {
			res.Differences = append(res.Differences, Pair{Batch: m.batchText(i)})
		}
	}
	res.DifferenceCount += m.extraCount - m.extra.Len
}

// batchText is a row of the batch answer under the view's names.
func (m *matcher) batchText(i int) rawJSON { return row.AppendJSONRow(nil, m.live.Fields, m.extra, i) }
