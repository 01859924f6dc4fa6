package agg

import (
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/axiomhq/hyperloglog"

	"tidemark/storage/row"
)

// newApproxCountDistinct estimates count(DISTINCT x) by HyperLogLog++ of 2^14 registers (an error
// of about 0.8 %). Where rows can be taken away it counts exactly, because a sketch can't forget.
func newApproxCountDistinct(s Spec) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	if s.Retract {
		return newCountDistinct(s)
	}
	f := &Func{Type: row.Scalar(row.BigInt), Args: s.Args, Approximate: true}
	f.column = func() Column {
		var buf []byte
		const each = 1024 // a sparse sketch; a dense one has 16 KiB
		return &column[*hyperloglog.Sketch]{
			each: 8,
			addAll: perRow(1, func(s **hyperloglog.Sketch, r *rows, i int, w int64) (grown int) {
				if *s == nil {
					*s, grown = hyperloglog.New14(), each
				}
				buf = row.AppendKey(buf[:0], r.args[0], i)
				(*s).Insert(buf)
				return grown
			}),
			merge: func(dst, src **hyperloglog.Sketch) (grown int) {
				switch {
				case *src == nil:
				case *dst == nil:
					*dst, grown = (*src).Clone(), each
				default:
					_ = (*dst).Merge(*src) // the same precision always merges
				}
				return grown
			},
			result: func(s **hyperloglog.Sketch, out *row.Vector) error {
				if *s == nil {
					out.AppendInt64(0)
				} else {
					out.AppendInt64(int64((*s).Estimate()))
				}
				return nil
			},
			encode: func(s **hyperloglog.Sketch, dst []byte) []byte {
				if *s == nil {
					return appendUvarint(dst, 0)
				}
				raw, err := (*s).MarshalBinary()
				if err != nil {
					panic(err) // its buffers are in memory
				}
				return appendString(dst, string(raw))
			},
			decode: func(s **hyperloglog.Sketch, d *decoder) int {
				raw := d.Bytes(d.length())
				if d.Failed || len(raw) == 0 {
					return 0
				}
				*s = &hyperloglog.Sketch{}
				if len(raw) < 8 || (*s).UnmarshalBinary(raw) != nil {
					d.Failed, *s = true, nil
				}
				return each
			},
			size: func(s **hyperloglog.Sketch) int {
				if *s == nil {
					return 0
				}
				return each
			},
		}
	}
	return f, nil
}

// quantileError is the relative error of approx_quantile.
const quantileError = 0.005

// newApproxQuantile estimates a quantile by DDSketch: within half a percent of the value. Where
// rows can be taken away it is exact.
func newApproxQuantile(s Spec) (*Func, error) {
	qs, list, err := fractions(&s)
	if err != nil {
		return nil, err
	}
	t := s.Args[0]
	if !t.IsNumeric() && t.Kind != row.Date && t.Kind != row.Timestamp {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a number, a DATE or a TIMESTAMP"}
	}
	elem := t
	switch {
	case t.Kind == row.Float:
		elem = row.Scalar(row.Double)
	case t.Kind == row.Decimal: // as DuckDB has it
		elem = row.Scalar([]row.Kind{row.SmallInt, row.Integer, row.BigInt, row.HugeInt}[decimalSize(t)])
	}
	double := row.Scalar(row.Double)
	f := &Func{Type: elem, Args: []row.Type{t, s.Args[1]}, Approximate: true}
	if t.Kind == row.Decimal || t.IsInteger() {
		f.Args[0] = double
	}
	if list {
		f.Type = row.ListOf(elem)
	}
	finish := func(quantile func(q float64) float64, out *row.Vector) {
		to := out
		if list {
			to = row.NewVector(elem, len(qs))
		}
		for _, q := range qs {
			appendRounded(to, quantile(q))
		}
		if list {
			out.AppendString(string(row.EncodeList(nil, to)))
		}
	}
	value := func(r *rows, i int) float64 {
		if r.args[0].Type.Class() == row.Float64Class {
			return r.args[0].F64[i]
		}
		return float64(r.args[0].I64[i])
	}
	if s.Retract {
		f.column = func() Column {
			one := row.NewVector(double, 1)
			return bagColumn(1, func(r *rows, i int, dst []byte) []byte {
				one.Reset(double)
				one.AppendFloat64(value(r, i))
				return row.AppendKey(dst, one, 0)
			}, func(b *bag, out *row.Vector) error {
				v, err := sortBag(b, double)
				if err != nil {
					return err
				}
				if v.count() == 0 {
					out.AppendNull()
					return nil
				}
				finish(func(q float64) float64 {
					one.Reset(double)
					between(&v, q, one)
					return one.F64[0]
				}, out)
				return nil
			})
		}
		return f, nil
	}
	f.column = func() Column { return sketchColumn(value, finish) }
	return f, nil
}

// decimalSize is 0 to 3 for DECIMALs that DuckDB keeps in 16, 32, 64 and 128 bits.
func decimalSize(t row.Type) int {
	switch {
	case t.Width <= 4:
		return 0
	case t.Width <= 9:
		return 1
	case t.Width <= 18:
		return 2
	}
	return 3
}

// appendRounded appends a double to a vector of any numeric type or of days or instants.
func appendRounded(out *row.Vector, f float64) {
	switch out.Type.Class() {
	case row.Float64Class:
		out.AppendFloat64(f)
	case row.Int128Class:
		x, _ := row.Int128FromFloat(f)
		out.AppendInt128(x)
	default:
		out.AppendInt64(int64(math.RoundToEven(f)))
	}
}

func sketchColumn(value func(r *rows, i int) float64, finish func(quantile func(q float64) float64, out *row.Vector)) Column {
	const each = 2048
	open := func(s **ddsketch.DDSketch) (grown int) {
		if *s != nil {
			return 0
		}
		made, err := ddsketch.LogUnboundedDenseDDSketch(quantileError)
		if err != nil {
			panic(err) // the accuracy is a constant
		}
		*s = made
		return each
	}
	return &column[*ddsketch.DDSketch]{
		each: 8,
		addAll: perRow(1, func(s **ddsketch.DDSketch, r *rows, i int, w int64) int {
			x := value(r, i)
			if math.IsNaN(x) || math.IsInf(x, 0) || w < 0 {
				return 0
			}
			grown := open(s)
			_ = (*s).AddWithCount(x, float64(w)) // finite values in range are taken
			return grown
		}),
		merge: func(dst, src **ddsketch.DDSketch) int {
			if *src == nil {
				return 0
			}
			grown := open(dst)
			_ = (*dst).MergeWith(*src) // the same mapping always merges
			return grown
		},
		result: func(s **ddsketch.DDSketch, out *row.Vector) error {
			if *s == nil || (*s).IsEmpty() {
				out.AppendNull()
				return nil
			}
			finish(func(q float64) float64 {
				v, _ := (*s).GetValueAtQuantile(q)
				return v
			}, out)
			return nil
		},
		encode: func(s **ddsketch.DDSketch, dst []byte) []byte {
			if *s == nil {
				return appendUvarint(dst, 0)
			}
			var raw []byte
			(*s).Encode(&raw, false)
			return appendString(dst, string(raw))
		},
		decode: func(s **ddsketch.DDSketch, d *decoder) int {
			raw := d.Bytes(d.length())
			if d.Failed || len(raw) == 0 {
				return 0
			}
			grown := open(s)
			if (*s).DecodeAndMergeWith(raw) != nil {
				d.Failed = true
			}
			return grown
		},
		size: func(s **ddsketch.DDSketch) int {
			if *s == nil {
				return 0
			}
			return each
		},
	}
}
