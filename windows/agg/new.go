package agg

import (
	"math"
	"sort"
	"strings"
)

// builders are the aggregates by name.
var builders map[string]func(s Spec) (*Func, error)

func init() { // a variable's initializer would be a cycle: DISTINCT builds the plain aggregate
	builders = map[string]func(s Spec) (*Func, error){
		"count":                 newCount,
		"count_star":            newCount,
		"count_if":              newCountIf,
		"sum":                   newSum,
		"fsum":                  newFSum,
		"kahan_sum":             newFSum,
		"avg":                   newAvg,
		"min":                   func(s Spec) (*Func, error) { return newExtreme(s, -1) },
		"max":                   func(s Spec) (*Func, error) { return newExtreme(s, 1) },
		"first":                 func(s Spec) (*Func, error) { return newFirst(s, false, false) },
		"last":                  func(s Spec) (*Func, error) { return newFirst(s, true, false) },
		"any_value":             func(s Spec) (*Func, error) { return newFirst(s, false, true) },
		"arg_min":               func(s Spec) (*Func, error) { return newArg(s, -1, false) },
		"arg_max":               func(s Spec) (*Func, error) { return newArg(s, 1, false) },
		"arg_min_null":          func(s Spec) (*Func, error) { return newArg(s, -1, true) },
		"arg_max_null":          func(s Spec) (*Func, error) { return newArg(s, 1, true) },
		"bool_and":              func(s Spec) (*Func, error) { return newBool(s, func(t *tally) bool { return t.no <= 0 }) },
		"bool_or":               func(s Spec) (*Func, error) { return newBool(s, func(t *tally) bool { return t.yes > 0 }) },
		"bit_and":               func(s Spec) (*Func, error) { return newBits(s, func(n, with int64) bool { return n == with }) },
		"bit_or":                func(s Spec) (*Func, error) { return newBits(s, func(_, with int64) bool { return with > 0 }) },
		"bit_xor":               func(s Spec) (*Func, error) { return newBits(s, func(_, with int64) bool { return with%2 != 0 }) },
		"list":                  newList,
		"string_agg":            newStringAgg,
		"approx_count_distinct": newApproxCountDistinct,
		"approx_quantile":       newApproxQuantile,
		"quantile_cont":         func(s Spec) (*Func, error) { return newQuantile(s, true) },
		"quantile_disc":         func(s Spec) (*Func, error) { return newQuantile(s, false) },
		"median":                func(s Spec) (*Func, error) { return newQuantile(s, true) },
		"mode":                  newMode,
		"histogram":             newHistogram,
		"entropy":               newEntropy,
		"variance":              func(s Spec) (*Func, error) { return newMoments(s, 2, sample) },
		"var_pop":               func(s Spec) (*Func, error) { return newMoments(s, 1, population) },
		"stddev": func(s Spec) (*Func, error) {
			return newMoments(s, 2, func(m *moments) float64 { return math.Sqrt(sample(m)) })
		},
		"stddev_pop": func(s Spec) (*Func, error) {
			return newMoments(s, 1, func(m *moments) float64 { return math.Sqrt(population(m)) })
		},
		"corr": func(s Spec) (*Func, error) {
			return newJoint(s, 2, true, func(j *joint) float64 { return j.xy / math.Sqrt(j.sxx*j.syy) })
		},
		"covar_pop": func(s Spec) (*Func, error) {
			return newJoint(s, 1, false, func(j *joint) float64 { return j.xy / float64(j.n) })
		},
		"covar_samp": func(s Spec) (*Func, error) {
			return newJoint(s, 2, false, func(j *joint) float64 { return j.xy / float64(j.n-1) })
		},
		"regr_slope": func(s Spec) (*Func, error) { return newJoint(s, 2, true, slope) },
		"regr_intercept": func(s Spec) (*Func, error) {
			return newJoint(s, 2, true, func(j *joint) float64 { return j.my - slope(j)*j.mx })
		},
		"sem": func(s Spec) (*Func, error) {
			return newMoments(s, 1, meanError)
		},
	}
	for alias, name := range map[string]string{
		"mean": "avg", "var_samp": "variance", "stddev_samp": "stddev", "array_agg": "list", "group_concat": "string_agg",
		"listagg": "string_agg", "min_by": "arg_min", "max_by": "arg_max", "argmin": "arg_min", "argmax": "arg_max",
		"arbitrary": "first", "quantile": "quantile_disc", "percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc",
		"sumkahan": "fsum",
	} {
		builders[alias] = builders[name]
	}
}

// New binds an aggregate. Errors are *Unknown and *Mismatch.
func New(s Spec) (*Func, error) {
	s.Name = strings.ToLower(s.Name)
	build := builders[s.Name]
	switch {
	case build == nil:
		return nil, &Unknown{s.Name}
	case !s.Distinct || withoutDistinct[s.Name]:
	case s.Name == "count":
		build = newCountDistinct
	default:
		build = newDistinct
	}
	f, err := build(s)
	if err != nil {
		return nil, err
	}
	f.Name = s.Name
	return f, nil
}

// withoutDistinct are the aggregates that DISTINCT does not change.
var withoutDistinct = map[string]bool{
	"min": true, "max": true, "bool_and": true, "bool_or": true, "bit_and": true, "bit_or": true, "any_value": true,
	"arg_min": true, "arg_max": true, "min_by": true, "max_by": true, "argmin": true, "argmax": true, "approx_count_distinct": true,
}

// Known reports whether there is an aggregate of this name.
func Known(name string) bool { return builders[strings.ToLower(name)] != nil }

// Names returns the names of all aggregates, in order.
func Names() []string {
	names := make([]string, 0, len(builders))
	for n := range builders {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
