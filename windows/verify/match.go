package verify

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"tidemark/storage/row"
	"tidemark/windows/runtime"
)

type rawJSON = json.RawMessage

// sampleRows is how many rows of both sides an answer shows.
const sampleRows = 5

// matcher pairs the rows of both sides. Rows that could be partners fall into the same part of the
// two spools, and one part after the other is paired, so that memory holds one part of the view.
type matcher struct {
	claim      *runtime.Claim
	dimensions []bool
	dir        string
	partBytes  int
	// aside says of the view's rows, by key, which can't be told; nil: all can.
	aside func(key []byte) (bool, error)
	// loose columns are compared by size, asText ones as JSON because their types differ.
	loose, asText []bool
	fields        []row.Field // of the batch answer, and those of the view with a number behind them
	numbered      []row.Field
	live, batch   *spool
	rows, sealed  int // the view's, and those set aside
	sample        []numberedPair
	// lone are rows of the view without a partner, extra those of the batch answer: the first
	// MaxDifferences of each.
	lone, extra           *row.Batch
	loneCount, extraCount int
	key                   []byte
}

// numberedPair is a pair with the place of its row among the view's.
type numberedPair struct {
	Pair
	number int64
}

func newMatcher(claim *runtime.Claim, dimensions []bool, dir string, partBytes int) *matcher {
	return &matcher{claim: claim, dimensions: dimensions, dir: dir, partBytes: cmp.Or(partBytes, defaultPartBytes)}
}

func (m *matcher) close() error { return errors.Join(m.live.close(), m.batch.close()) }

// begin spools the view's rows, once the types of the batch answer are known.
func (m *matcher) begin(fields []row.Field) error {
	if len(fields) != len(m.claim.Fields) {
		return unknown("the batch answer has %d columns, the view %d", len(fields), len(m.claim.Fields))
	}
	m.fields = fields
	m.loose, m.asText = make([]bool, len(fields)), make([]bool, len(fields))
	for c, f := range fields {
		live := m.claim.Fields[c].Type
		m.loose[c] = live.Class() == row.Float64Class && f.Type.Class() == row.Float64Class
		m.asText[c] = !m.loose[c] && !live.Equal(f.Type)
	}
	m.numbered = append(slices.Clone(m.claim.Fields), row.Field{Name: "#", Type: bigint})
	m.lone, m.extra = row.NewBatch(m.numbered, 0), row.NewBatch(fields, 0)
	return m.claim.Rows(func(keys [][]byte, rows *row.Batch) error {
		if m.live == nil {
			m.divide(rows)
		}
		number := row.NewVector(bigint, rows.Len)
		for i := range rows.Len {
			number.AppendInt64(int64(m.rows + i))
		}
		rows.Cols = append(rows.Cols, number)
		for i := range rows.Len {
			m.rows++
			if m.aside != nil {
				aside, err := m.aside(keys[i])
				if err != nil {
					return err
				}
				if aside {
					m.sealed++
					continue
				}
			}
			if err := m.live.add(m.part(m.live, rows, i), rows, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// divide says how many parts there are, by the first rows of the view.
func (m *matcher) divide(first *row.Batch) {
	bytes := int64(0)
	for i := range first.Len {
		bytes += int64(rowBytes(first, i))
	}
	parts := 1
	if first.Len > 0 {
		parts = int(min(maxParts, 1+bytes/int64(first.Len)*m.claim.Count/int64(m.partBytes)))
	}
	m.live, m.batch = newSpool(m.dir, m.numbered, parts, 2*m.partBytes), newSpool(m.dir, m.fields, parts, 2*m.partBytes)
}

// part is where a row belongs: partners agree in what is exact of them.
func (m *matcher) part(s *spool, rows *row.Batch, i int) int {
	if len(s.parts) == 1 {
		return 0
	}
	m.key = m.exact(m.key[:0], rows, i, nil)
	return int(xxhash.Sum64(m.key) % uint64(len(s.parts)))
}

// exact is what is exact of a row, of the columns that only names (nil: all).
func (m *matcher) exact(dst []byte, b *row.Batch, i int, only []bool) []byte {
	for c, v := range b.Cols[:len(m.fields)] {
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

// whole is exact with the floating-point columns behind it: rows that agree in it are equal.
func (m *matcher) whole(dst []byte, b *row.Batch, i int) []byte {
	dst = m.exact(dst, b, i, nil)
	for c, loose := range m.loose {
		if loose {
			dst = row.AppendKey(dst, b.Cols[c], i)
		}
	}
	return dst
}

// take takes rows of the batch answer.
func (m *matcher) take(fields []row.Field, rows *row.Batch) error {
	if m.fields == nil {
		if err := m.begin(fields); err != nil {
			return err
		}
	}
	if m.batch == nil { // the view has no rows
		m.divide(rows)
	}
	for i := range rows.Len {
		if err := m.batch.add(m.part(m.batch, rows, i), rows, i); err != nil {
			return err
		}
	}
	return nil
}

// pair pairs the rows of one part: first those that are equal, then those that are nearly so.
func (m *matcher) pair(n int) error {
	live := row.NewBatch(m.numbered, 0)
	if err := m.live.each(n, func(rows *row.Batch) error { live.AppendAll(rows); return nil }); err != nil {
		return err
	}
	matched := make([]bool, live.Len)
	var taken []bool // of the rows of the batch answer, in their order
	pass := func(f func(rows *row.Batch, i, nth int)) error {
		nth := 0
		return m.batch.each(n, func(rows *row.Batch) error {
			for i := range rows.Len {
				f(rows, i, nth)
				nth++
			}
			return nil
		})
	}
	match := func(at int, rows *row.Batch, i, nth int) {
		matched[at], taken[nth] = true, true
		if number := live.Cols[len(m.fields)].I64[at]; number >= m.claim.Count-sampleRows {
			m.sample = append(m.sample, numberedPair{Pair{m.text(live, at), m.batchText(rows, i)}, number})
		}
	}
	index := make(map[string][]int, live.Len)
	for at := range live.Len {
		m.key = m.whole(m.key[:0], live, at)
		index[string(m.key)] = append(index[string(m.key)], at)
	}
	left := live.Len
	err := pass(func(rows *row.Batch, i, nth int) {
		taken = append(taken, false)
		m.key = m.whole(m.key[:0], rows, i)
		if same := index[string(m.key)]; len(same) > 0 {
			index[string(m.key)] = same[1:]
			match(same[0], rows, i, nth)
			left--
		}
	})
	if err != nil {
		return err
	}
	clear(index)
	for at := range live.Len {
		if !matched[at] {
			m.key = m.exact(m.key[:0], live, at, nil)
			index[string(m.key)] = append(index[string(m.key)], at)
		}
	}
	err = pass(func(rows *row.Batch, i, nth int) {
		if taken[nth] {
			return
		}
		m.key = m.exact(m.key[:0], rows, i, nil)
		candidates := index[string(m.key)]
		for k, at := range candidates {
			if m.near(live, at, rows, i) {
				index[string(m.key)] = append(candidates[:k:k], candidates[k+1:]...)
				match(at, rows, i, nth)
				left--
				return
			}
		}
		if m.extraCount++; m.extraCount <= MaxDifferences {
			m.extra.AppendFrom(rows, i)
		}
	})
	for at := range live.Len {
		if left > 0 && !matched[at] {
			if m.loneCount++; m.loneCount <= MaxDifferences {
				m.lone.AppendFrom(live, at)
			}
		}
	}
	return err
}

// near compares the floating-point columns.
func (m *matcher) near(live *row.Batch, at int, rows *row.Batch, i int) bool {
	for c, loose := range m.loose {
		if !loose {
			continue
		}
		a, b := live.Cols[c], rows.Cols[c]
		if a.IsNull(at) != b.IsNull(i) {
			return false
		}
		if a.IsNull(at) {
			continue
		}
		x, y := a.F64[at], b.F64[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		if !(math.Abs(x-y) <= 1e-9*math.Max(math.Abs(x), math.Abs(y))+1e-12) {
			return false
		}
	}
	return true
}

// text is a row of the view, batchText one of the batch answer under the view's names.
func (m *matcher) text(live *row.Batch, at int) rawJSON {
	return row.AppendJSONRow(nil, m.claim.Fields, live, at)
}

func (m *matcher) batchText(rows *row.Batch, i int) rawJSON {
	return row.AppendJSONRow(nil, m.claim.Fields, rows, i)
}

// finish pairs the rows and lists those without a partner, by key. Two of them that agree in the
// columns of the row key are one row with two values.
func (m *matcher) finish(res *Result) error {
	if m.fields == nil { // the batch answer is empty
		if err := m.begin(m.claim.Fields); err != nil {
			return err
		}
	}
	for n := range m.parts() {
		if err := m.pair(n); err != nil {
			return err
		}
	}
	res.Rows, res.Sealed = m.rows, m.sealed
	slices.SortFunc(m.sample, func(a, b numberedPair) int { return int(a.number - b.number) })
	for _, p := range m.sample {
		res.Sample = append(res.Sample, p.Pair)
	}
	res.DifferenceCount = m.loneCount + m.extraCount
	partner := map[string][]int{}
	for i := range m.extra.Len {
		k := string(m.exact(nil, m.extra, i, m.dimensions))
		partner[k] = append(partner[k], i)
	}
	used := make([]bool, m.extra.Len)
	order := make([]int, m.lone.Len)
	for i := range order {
		order[i] = i
	}
	number := m.lone.Cols[len(m.fields)].I64
	slices.SortFunc(order, func(a, b int) int { return int(number[a] - number[b]) })
	for _, i := range order {
		p := Pair{Live: m.text(m.lone, i)}
		k := string(m.exact(nil, m.lone, i, m.dimensions))
		if list := partner[k]; len(list) > 0 {
			used[list[0]] = true
			p.Batch, partner[k] = m.batchText(m.extra, list[0]), list[1:]
			res.DifferenceCount--
		}
		res.Differences = append(res.Differences, p)
	}
	for i := range m.extra.Len {
		if !used[i] && len(res.Differences) < MaxDifferences {
			res.Differences = append(res.Differences, Pair{Batch: m.batchText(m.extra, i)})
		}
	}
	return nil
}

func (m *matcher) parts() int {
	if m.live == nil {
		return 0
	}
	return len(m.live.parts)
}
