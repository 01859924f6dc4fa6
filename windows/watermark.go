package windows

import "math"

// NoWatermark is the watermark of what never had an event: it is less than every time.
const NoWatermark Micros = math.MinInt64

// NoTime is the time of a row that has none.
const NoTime Micros = math.MinInt64

// Never is later than every watermark: what is final at Never is never final.
const Never Micros = math.MaxInt64

// AtOnce is not later than any watermark, NoWatermark included: what is final AtOnce is final as
// soon as it is there.
const AtOnce Micros = math.MinInt64

// Later returns t + span, held at Never.
func Later(t, span Micros) Micros {
	if t > Never-span {
		return Never
	}
	return t + span
}

// earlier returns t − span, held at NoWatermark + 1: a watermark that is there stays one.
func earlier(t, span Micros) Micros {
	if t < NoWatermark+1+span {
		return NoWatermark + 1
	}
	return t - span
}
