package agg

import (
	"encoding/binary"
	"slices"
	"strings"

	"tidemark/storage/row"
)

// cutEntry takes an entry apart into what stands before and behind the cut.
func cutEntry(entry string) (before, behind string, err error) {
	n := len(entry) - 4
	if n < 0 {
		return "", "", errBadState
	}
	cut := int(binary.BigEndian.Uint32([]byte(entry[n:])))
	if cut > n {
		return "", "", errBadState
	}
	return entry[:cut], entry[cut:n], nil
}

// sortBy sorts by a key, equal ones as they stand.
func sortBy[T any](s []T, key func(T) string) {
	slices.SortStableFunc(s, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// orderedBag is a column of bags of (order, rank, value of argument 0).
func orderedBag(s Spec, nulls int, result func(b *bag, out *row.Vector) error) Column {
	n := len(s.Args)
	return bagColumn(nulls, func(r *rows, i int, dst []byte) []byte {
		from := len(dst)
		dst = appendRank(appendOrder(dst, s.Order, r, n, i), r.rank(i))
		cut := len(dst)
		return sealEntry(encodeValue(dst, r.args[0], i), from, cut)
	}, result)
}

// eachValue calls f for each value of a bag of entries, in order, as often as it is in there.
func eachValue(b *bag, t row.Type, f func(v *row.Vector)) error {
	one := row.NewVector(t, 1)
	for _, k := range b.keys() {
		one.Reset(t)
		if err := entryValue(k, one); err != nil {
			return err
		}
		for range b.counts[k] {
			f(one)
		}
	}
	return nil
}

// newList is list: all values, NULL included, in the order of the log or of ORDER BY.
func newList(s Spec) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	t := s.Args[0]
	f := &Func{Type: row.ListOf(t), Args: s.Args, Ordered: true}
	f.column = func() Column {
		return orderedBag(s, 0, func(b *bag, out *row.Vector) error {
			elems := row.NewVector(t, len(b.counts))
			if err := eachValue(b, t, func(v *row.Vector) { elems.AppendFrom(v, 0) }); err != nil {
				return err
			}
			if elems.Len() == 0 {
				out.AppendNull()
				return nil
			}
			out.AppendString(string(row.EncodeList(nil, elems)))
			return nil
		})
	}
	return f, nil
}

// newStringAgg is string_agg(text, separator), in order.
func newStringAgg(s Spec) (*Func, error) {
	if len(s.Args) < 1 || len(s.Args) > 2 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a text and a separator"}
	}
	sep := ","
	if len(s.Args) == 2 {
		v := s.constant(1)
		if v == nil || v.Type.Kind != row.Varchar || v.IsNull(0) {
			return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "its separator must be a constant text"}
		}
		sep = v.Str[0]
	}
	text := row.Scalar(row.Varchar)
	f := &Func{Type: text, Args: []row.Type{text, text}[:len(s.Args)], Ordered: true}
	f.column = func() Column {
		return orderedBag(s, 1, func(b *bag, out *row.Vector) error {
			var all strings.Builder
			first := true
			err := eachValue(b, text, func(v *row.Vector) {
				if !first {
					all.WriteString(sep)
				}
				all.WriteString(v.Str[0])
				first = false
			})
			if err != nil {
				return err
			}
			if first {
				out.AppendNull()
			} else {
				out.AppendString(all.String())
			}
			return nil
		})
	}
	return f, nil
}

// constant returns the value of a constant argument, nil when it is none.
func (s *Spec) constant(i int) *row.Vector {
	if i < len(s.Const) {
		return s.Const[i]
	}
	return nil
}
