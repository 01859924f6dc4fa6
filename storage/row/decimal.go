package row

import "strconv"

// decimalText is the text of a JSON number taken apart: ±0.d1d2d3… · 10^point, where d1 is the
// first digit that is not zero. Nothing of it is computed, so 1e1000000000 costs no more than 1.
type decimalText struct {
	neg         bool
	whole, frac []byte // the digits before and behind the written point, d1 first
	digits      int    // how many digits from d1 on, zeros at the end left out; 0: the number is 0
	point       int    // bounded by ±maxPoint
}

// maxPoint bounds the exponent: no type of ours reaches it, and sums of it never overflow.
const maxPoint = 1 << 40

// parseDecimalText takes the text of a JSON number apart; ok is false when it is none.
func parseDecimalText(text []byte) (d decimalText, ok bool) {
	i := 0
	if i < len(text) && text[i] == '-' {
		d.neg = true
		i++
	}
	from := i
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	d.whole = text[from:i]
	if len(d.whole) == 0 || len(d.whole) > 1 && d.whole[0] == '0' {
		return d, false
	}
	if i < len(text) && text[i] == '.' {
		i++
		from = i
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
		if d.frac = text[from:i]; len(d.frac) == 0 {
			return d, false
		}
	}
	exp := 0
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i++
		negExp := false
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			negExp = text[i] == '-'
			i++
		}
		from = i
		for ; i < len(text) && text[i]-'0' <= 9; i++ {
			if exp < maxPoint {
				exp = exp*10 + int(text[i]-'0')
			}
		}
		if i == from {
			return d, false
		}
		exp = min(exp, maxPoint)
		if negExp {
			exp = -exp
		}
	}
	if i != len(text) {
		return d, false
	}
	d.point = len(d.whole)
	if d.whole[0] == '0' {
		d.whole, d.point = nil, 0
		for len(d.frac) > 0 && d.frac[0] == '0' {
			d.frac = d.frac[1:]
			d.point--
		}
	}
	for len(d.frac) > 0 && d.frac[len(d.frac)-1] == '0' {
		d.frac = d.frac[:len(d.frac)-1]
	}
	if len(d.frac) == 0 {
		for len(d.whole) > 0 && d.whole[len(d.whole)-1] == '0' {
			d.whole = d.whole[:len(d.whole)-1]
		}
	}
	d.digits = len(d.whole) + len(d.frac)
	if d.digits == 0 {
		d.neg, d.point = false, 0
		return d, true
	}
	d.point = max(-maxPoint, min(maxPoint, d.point+exp))
	return d, true
}

// each gives out the digits from the first on until f says false.
func (d *decimalText) each(f func(digit byte) bool) {
	for _, part := range [2][]byte{d.whole, d.frac} {
		for _, c := range part {
			if !f(c - '0') {
				return
			}
		}
	}
}

// unscaled returns the number times 10^scale. exact is false when that is no whole number, fits
// is false when it has more than 38 digits.
func (d *decimalText) unscaled(scale int) (x Int128, exact, fits bool) {
	if d.digits == 0 {
		return Int128{}, true, true
	}
	point := d.point + scale // digits of the whole number
	if point < d.digits {
		return Int128{}, false, true
	}
	if point > 39 {
		return Int128{}, true, false
	}
	ten := FromInt64(10)
	n := 0
	fits = true
	next := func(digit byte) bool {
		var ok1, ok2 bool
		x, ok1 = x.Mul(ten)
		if d.neg { // downwards, so that the least number fits
			x, ok2 = x.Sub(FromInt64(int64(digit)))
		} else {
			x, ok2 = x.Add(FromInt64(int64(digit)))
		}
		fits = fits && ok1 && ok2
		n++
		return fits
	}
	d.each(next)
	for fits && n < point {
		next(0)
	}
	return x, true, fits
}

// FormatDecimal appends an unscaled number with scale digits behind the point.
func FormatDecimal(dst []byte, unscaled Int128, scale uint8) []byte {
	if scale == 0 {
		return unscaled.Append(dst)
	}
	var b [44]byte
	text := unscaled.Append(b[:0])
	if text[0] == '-' {
		dst = append(dst, '-')
		text = text[1:]
	}
	s := int(scale)
	if len(text) <= s {
		dst = append(dst, '0', '.')
		for range s - len(text) {
			dst = append(dst, '0')
		}
		return append(dst, text...)
	}
	dst = append(dst, text[:len(text)-s]...)
	dst = append(dst, '.')
	return append(dst, text[len(text)-s:]...)
}

// AppendCanonicalNumber appends a text that is the same for all JSON numbers of one value, such as
// 10, 10.0 and 1e1; nothing when the text is no number.
func AppendCanonicalNumber(dst, text []byte) []byte {
	d, ok := parseDecimalText(text)
	if !ok {
		return dst
	}
	if d.digits == 0 {
		return append(dst, '0')
	}
	if d.neg {
		dst = append(dst, '-')
	}
	dst = append(append(dst, d.whole...), d.frac...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.point), 10)
}
