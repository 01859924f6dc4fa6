package agg

import (
	"math"

	"tidemark/storage/row"
)

// valueBag is a column of bags of the values of argument 0, without NULL.
func valueBag(result func(b *bag, out *row.Vector) error) Column {
	return bagColumn(1, func(r *rows, i int, dst []byte) []byte { return row.AppendKey(dst, r.args[0], i) }, result)
}

// sorted is a bag's values in order, each with how many values stand at or before it.
type sorted struct {
	values *row.Vector
	upTo   []int64
}

func sortBag(b *bag, t row.Type) (sorted, error) {
	s := sorted{values: row.NewVector(t, len(b.counts))}
	total := int64(0)
	for _, k := range b.keys() {
		if _, err := row.DecodeKey(t, []byte(k), s.values); err != nil {
			return s, err
		}
		total += b.counts[k]
		s.upTo = append(s.upTo, total)
	}
	return s, nil
}

func (s *sorted) count() int64 {
	if len(s.upTo) == 0 {
		return 0
	}
	return s.upTo[len(s.upTo)-1]
}

// at returns the index of the value that stands at place n, from 0.
func (s *sorted) at(n int64) int {
	low, high := 0, len(s.upTo)-1
	for low < high {
		if m := (low + high) / 2; s.upTo[m] > n {
			high = m
		} else {
			low = m + 1
		}
	}
	return low
}

// fractions reads the constant fraction, or list of them, of a quantile.
func fractions(s *Spec) (qs []float64, list bool, err error) {
	bad := &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a value and a constant fraction from 0 to 1, or a list of them"}
	if len(s.Args) != 2 {
		return nil, false, bad
	}
	v := s.constant(1)
	if v == nil || v.IsNull(0) {
		return nil, false, bad
	}
	if v.Type.Kind == row.List {
		list = true
		if v, err = row.Elements(v, 0); err != nil {
			return nil, true, err
		}
	}
	for i := range v.Len() {
		q := math.NaN()
		switch {
		case v.IsNull(i):
		case v.Type.Class() == row.Float64Class:
			q = v.F64[i]
		case v.Type.IsNumeric() && v.Type.Class() == row.Int64Class:
			q = float64(v.I64[i]) / math.Pow10(int(v.Type.Scale))
		}
		if !(q >= 0 && q <= 1) {
			return nil, list, bad
		}
		qs = append(qs, q)
	}
	return qs, list, nil
}

// continuous reports whether values of t have a middle, and the type of that middle.
func continuous(t row.Type) (row.Type, bool) {
	switch {
	case t.IsInteger():
		return row.Scalar(row.Double), true
	case t.IsNumeric() || t.Kind == row.Timestamp:
		return t, true
	case t.Kind == row.Date:
		return row.Scalar(row.Timestamp), true
	}
	return t, false
}

// newQuantile is quantile_cont, which lies between two values where the fraction does, and
// quantile_disc, which is always one of them. Median is the first where there is a middle.
func newQuantile(s Spec, cont bool) (*Func, error) {
	var qs []float64
	list := false
	if s.Name == "median" {
		if len(s.Args) != 1 {
			return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
		}
		qs = []float64{0.5}
		_, cont = continuous(s.Args[0])
	} else {
		var err error
		if qs, list, err = fractions(&s); err != nil {
			return nil, err
		}
	}
	t := s.Args[0]
	elem := t
	if cont {
		var ok bool
		if elem, ok = continuous(t); !ok {
			return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "values of this type have no middle; quantile_disc takes them"}
		}
	}
	f := &Func{Type: elem, Args: s.Args}
	if list {
		f.Type = row.ListOf(elem)
	}
	f.column = func() Column {
		return valueBag(func(b *bag, out *row.Vector) error {
			v, err := sortBag(b, t)
			if err != nil {
				return err
			}
			if v.count() == 0 {
				out.AppendNull()
				return nil
			}
			to := out
			if list {
				to = row.NewVector(elem, len(qs))
			}
			for _, q := range qs {
				n := v.count()
				if !cont {
					place := max(1, n-int64(math.Floor(float64(n)-q*float64(n)))) - 1
					to.AppendFrom(v.values, v.at(place))
					continue
				}
				between(&v, q, to)
			}
			if list {
				out.AppendString(string(row.EncodeList(nil, to)))
			}
			return nil
		})
	}
	return f, nil
}

// between appends the value at the fraction q of the way from the first to the last.
func between(s *sorted, q float64, out *row.Vector) {
	at := float64(s.count()-1) * q
	low, high := s.at(int64(math.Floor(at))), s.at(int64(math.Ceil(at)))
	part := at - math.Floor(at)
	v := s.values
	switch {
	case out.Type.Kind == row.Double && v.Type.IsInteger():
		a, b := integerAt(v, low).Float64(), integerAt(v, high).Float64()
		out.AppendFloat64(lerp(a, b, part))
	case out.Type.Class() == row.Float64Class:
		f := lerp(v.F64[low], v.F64[high], part)
		if out.Type.Kind == row.Float {
			f = float64(float32(f))
		}
		out.AppendFloat64(f)
	default:
		unit := int64(1)
		if v.Type.Kind == row.Date {
			unit = row.MicrosPerDay
		}
		a, _ := integerAt(v, low).Mul(row.FromInt64(unit))
		b, _ := integerAt(v, high).Mul(row.FromInt64(unit))
		d, _ := b.Sub(a)
		// The step is cut off towards the lower value, as DuckDB does.
		step, _ := row.Int128FromFloat(math.Trunc(d.Float64() * part))
		mid, _ := a.Add(step)
		if part != 0 && a.Sign() < 0 && math.Trunc(d.Float64()*part) != d.Float64()*part {
			if mid.Sign() < 0 { // cut off towards zero
				mid, _ = mid.Add(row.FromInt64(1))
			}
		}
		if out.Type.Class() == row.Int128Class {
			out.AppendInt128(mid)
		} else {
			out.AppendInt64(mid.Int64())
		}
	}
}

func lerp(a, b, part float64) float64 {
	if part == 0 {
		return a
	}
	return a*(1-part) + b*part // in DuckDB's order, to the last digit
}

func integerAt(v *row.Vector, i int) row.Int128 {
	if v.Type.Class() == row.Int128Class {
		return v.I128[i]
	}
	return row.FromInt64(v.I64[i])
}

// modes is the state of mode: how often each value came, and where it came first.
func newMode(s Spec) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	t := s.Args[0]
	f := &Func{Type: t, Args: s.Args, Ordered: true}
	f.column = func() Column {
		return bagColumn(1, func(r *rows, i int, dst []byte) []byte {
			from := len(dst)
			dst = row.AppendKey(dst, r.args[0], i)
			cut := len(dst)
			return sealEntry(appendRank(dst, r.rank(i)), from, cut)
		}, func(b *bag, out *row.Vector) error {
			// The most frequent value; of equal ones the one that came first.
			best, place, most := "", "", int64(0)
			value, first, n := "", "", int64(0)
			settle := func() {
				if n > most || n == most && n > 0 && first < place {
					best, place, most = value, first, n
				}
			}
			for _, k := range b.keys() {
				v, at, err := cutEntry(k)
				if err != nil {
					return err
				}
				if v != value || n == 0 {
					settle()
					value, first, n = v, at, 0
				}
				n += b.counts[k]
			}
			if settle(); most == 0 {
				out.AppendNull()
				return nil
			}
			_, err := row.DecodeKey(t, []byte(best), out)
			return err
		})
	}
	return f, nil
}

// HistogramType is the type of a histogram over values of t: DuckDB's MAP(t, UBIGINT) as its
// entries.
func HistogramType(t row.Type) row.Type {
	return row.ListOf(row.StructOf(row.Field{Name: "key", Type: t}, row.Field{Name: "value", Type: row.Scalar(row.BigInt)}))
}

// newHistogram counts each value.
func newHistogram(s Spec) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	t := s.Args[0]
	f := &Func{Type: HistogramType(t), Args: s.Args}
	f.column = func() Column {
		return valueBag(func(b *bag, out *row.Vector) error {
			entries := row.NewVector(*f.Type.Elem, len(b.counts))
			count := row.NewVector(row.Scalar(row.BigInt), 1)
			for _, k := range b.keys() {
				count.Reset(count.Type)
				count.AppendInt64(b.counts[k])
				entries.AppendString(k + string(row.AppendKey(nil, count, 0)))
			}
			if entries.Len() == 0 {
				out.AppendNull()
				return nil
			}
			out.AppendString(string(row.EncodeList(nil, entries)))
			return nil
		})
	}
	return f, nil
}

// newEntropy is the Shannon entropy of the values in bits.
func newEntropy(s Spec) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	f := &Func{Type: row.Scalar(row.Double), Args: s.Args}
	f.column = func() Column {
		return valueBag(func(b *bag, out *row.Vector) error {
			total := 0.0
			keys := b.keys()
			for _, k := range keys {
				total += float64(b.counts[k])
			}
			e := 0.0
			for _, k := range keys {
				p := float64(b.counts[k]) / total
				e -= p * math.Log2(p)
			}
			out.AppendFloat64(e)
			return nil
		})
	}
	return f, nil
}
