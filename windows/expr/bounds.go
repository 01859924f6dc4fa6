package expr

import "tidemark/storage/row"

// Here is what keeps a text, a list or a STRUCT from growing without end, whatever is built of what: a
// value has at most maxText bytes, and so have the values that one is made of. So it is a row that
// fails, and not the memory of the server.

const (
	// maxText is how many bytes a value has at most that is made here.
	maxText = 64 << 20
	// mostTogether is about how much the rows of one batch may have of what is made of a number, as
	// repeat does it; partRows is how many of them are made before that is looked at.
	mostTogether = 1 << 30
	partRows     = 8
)

func tooLong() *Failure { return outOfRange("a value would have more than %d bytes", maxText) }

// within gives the rows whose arguments are together not longer than a value may be. The others fail.
func (c *call) within() []int32 {
	texts := 0
	for _, v := range c.args {
		if v.Type.Class() == row.StringClass {
			texts++
		}
	}
	if texts < 2 {
		return c.rows
	}
	long := func(i int32) bool {
		n := 0
		for _, v := range c.args {
			if v.Type.Class() == row.StringClass && !v.IsNull(int(i)) {
				n += len(v.Str[i])
			}
		}
		return n > maxText
	}
	for k, i := range c.rows {
		if !long(i) {
			continue
		}
		kept := append([]int32{}, c.rows[:k]...)
		for _, i := range c.rows[k:] {
			if long(i) {
				c.fail(i, tooLong())
			} else {
				kept = append(kept, i)
			}
		}
		return kept
	}
	return c.rows
}

// bound fails the rows whose values came out too long.
func (c *call) bound() {
	for _, i := range c.rows {
		if len(c.out.Str[i]) > maxText {
			c.fail(i, tooLong())
		}
	}
}

// inParts is a kernel that makes much of a number: it is run for a few rows after the other, until they
// have enough together. The rows behind them fail.
func inParts(k kernel) kernel {
	return func(c *call) {
		rows, made := c.rows, 0
		defer func() { c.rows = rows }()
		for rest := rows; len(rest) > 0; rest = rest[len(c.rows):] {
			c.rows = rest[:min(len(rest), partRows)]
			if made > mostTogether {
				for _, i := range c.rows {
					c.fail(i, outOfRange("the values of a batch would have more than %d bytes together", mostTogether))
				}
				continue
			}
			k(c)
			for _, i := range c.rows {
				made += len(c.out.Str[i])
			}
		}
	}
}
