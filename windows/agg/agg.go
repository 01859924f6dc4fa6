package agg

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"tidemark/storage/row"
)

// Spec says which aggregate is wanted.
type Spec struct {
	// Name as DuckDB has it, in any case: sum, count, arg_max. count(*) has no Args.
	Name string
	// Args are the types of the arguments.
	Args []row.Type
	// Distinct counts each different argument once.
	Distinct bool
	// Retract: rows may be taken away again, with weight −1.
	Retract bool
	// Order is the ORDER BY inside an aggregate. The values of its keys are passed to Add as
	// further arguments behind those of Args.
	Order []Order
	// Const are the values of arguments that must be constant, such as quantile_cont's fraction
	// or string_agg's separator, by argument number; nil where an argument is not constant.
	Const []*row.Vector
}

// Order is one key of an ORDER BY inside an aggregate.
type Order struct {
	Type            row.Type
	Desc, NullsLast bool
}

// Rank is a row's place in the order of the log. Row orders rows of one place, and rows that are
// no events: the key of their columns.
type Rank struct {
	Sequence, Offset int64
	Row              string
}

// Compare orders two ranks, earliest first.
func (r Rank) Compare(o Rank) int {
	if c := cmp.Compare(r.Sequence, o.Sequence); c != 0 {
		return c
	}
	if c := cmp.Compare(r.Offset, o.Offset); c != 0 {
		return c
	}
	return strings.Compare(r.Row, o.Row)
}

// Func is a bound aggregate.
type Func struct {
	Name string
	// Type is the type of the results.
	Type row.Type
	// Args are the types in which Add wants its arguments: the caller casts.
	Args []row.Type
	// Ordered says that results depend on the rows' ranks, which Add then needs.
	Ordered bool
	// Approximate says that results are estimates, which another order of merging may change.
	Approximate bool

	column func() Column
	shared func() SharedColumn // nil where calls can't share a column
}

// NewColumn returns a column without slots.
func (f *Func) NewColumn() Column { return f.column() }

// Column is the states of one aggregate for many groups.
type Column interface {
	// Grow makes the slots 0 … n−1 exist; new ones are empty.
	Grow(n int)
	// Add takes the rows sel (nil: all) of args into the slots: slots[k] is the slot of the k-th
	// selected row. Weights and ranks are by row number; nil weights are all +1.
	Add(slots []int32, sel []int32, args []*row.Vector, weights []int64, ranks []Rank)
	// Merge adds the state of slot src to slot dst. Src stays as it is.
	Merge(dst, src int32)
	// Reset makes a slot empty.
	Reset(slot int32)
	// Result appends the slot's result to out. An error is a failure after the aggregation, such
	// as a sum past 128 bits: nothing was appended.
	Result(slot int32, out *row.Vector) error
	// Encode appends the slot's state to dst.
	Encode(slot int32, dst []byte) []byte
	// Decode replaces the slot's state by the one at the beginning of src and returns the rest.
	Decode(slot int32, src []byte) (rest []byte, err error)
	// Bytes is about the memory that the states take.
	Bytes() int
}

// Differential is a Column whose states are sets or multisets, which can tell what came into them
// and went: so that a large one need not be encoded whole because a little of it changed.
type Differential interface {
	Column
	// Entries is how many entries a slot's state has.
	Entries(slot int32) int
	// Note begins to note what changes in a slot from now on, or ends that. Reset ends it too.
	Note(slot int32, on bool)
	// EncodeNoted appends what was noted, as the encoding of a state, and says how many entries that
	// has; noting begins anew.
	EncodeNoted(slot int32, dst []byte) (out []byte, entries int)
	// DecodeMore adds the state at the beginning of src to the slot's and returns the rest.
	DecodeMore(slot int32, src []byte) (rest []byte, err error)
}

// DifferentialOf gives a column as a Differential, nil where it is none.
func DifferentialOf(c Column) Differential {
	if s, ok := c.(*skipping); ok { // it leaves rows out, and its states are the other's
		c = s.Column
	}
	if d, ok := c.(interface {
		Differential
		differs() bool
	}); ok && d.differs() {
		return d
	}
	return nil
}

// Unknown says that there is no aggregate of this name.
type Unknown struct{ Name string }

func (u *Unknown) Error() string { return fmt.Sprintf("there is no aggregate %s", u.Name) }

// Mismatch says that an aggregate does not take these arguments.
type Mismatch struct {
	Name   string
	Types  []row.Type
	Reason string
}

func (m *Mismatch) Error() string {
	types := make([]string, len(m.Types))
	for i, t := range m.Types {
		types[i] = t.String()
	}
	s := fmt.Sprintf("%s does not take (%s)", m.Name, strings.Join(types, ", "))
	if m.Reason != "" {
		s += ": " + m.Reason
	}
	return s
}

// Failure is why a group has no result. Codes are those of failed expressions.
type Failure struct{ Code, Message string }

func (f *Failure) Error() string { return f.Message }

var errBadState = errors.New("the state of an aggregate is damaged")
