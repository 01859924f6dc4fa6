package expr

import "strings"

// memo remembers what a costly function of one text gave. Columns of few different texts (urls,
// user agents) are common, and a look-up costs a twentieth of a regular expression. It belongs to
// one Expr, like its other scratch memory.
type memo struct {
	known        map[string]string
	bytes        int
	hits, misses int
	off          bool
}

// The memo is emptied when it holds this much. If it was not of much use until then, it is off
// for good: then each text is another one.
const (
	maxMemoTexts = 1 << 16
	maxMemoBytes = 8 << 20
)

// remember returns f(s), where f's result is a part of its argument or made anew.
func (c *call) remember(s string, f func(s string) string) string {
	m := c.expr.memo
	if m == nil {
		m = &memo{known: map[string]string{}}
		c.expr.memo = m
	}
	if m.off {
		return f(s)
	}
	if v, ok := m.known[s]; ok {
		m.hits++
		return v
	}
	m.misses++
	if len(m.known) >= maxMemoTexts || m.bytes >= maxMemoBytes {
		m.off = m.hits < m.misses
		clear(m.known)
		m.bytes, m.hits, m.misses = 0, 0, 0
		if m.off {
			return f(s)
		}
	}
	s = strings.Clone(s) // it must not keep the memory of its batch
	v := f(s)
	m.known[s] = v
	m.bytes += len(s) + len(v) + 64
	return v
}
