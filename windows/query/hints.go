package query

import (
	"strings"

	"tidemark/storage/problem"
)

// absentAggregates are the aggregates of DuckDB that agg does not have, so that one is called by what
// it is.
var absentAggregates = words("approx_top_k bitstring_agg favg histogram_exact kurtosis kurtosis_pop mad product regr_avgx regr_avgy " +
	"regr_count regr_r2 regr_sxx regr_sxy regr_syy reservoir_quantile skewness sum_no_overflow")

// clocks are the functions and words that read a clock, and what to write in their place.
var clocks = words("now current_timestamp current_date current_time localtime localtimestamp today " +
	"get_current_timestamp get_current_time transaction_timestamp clock_timestamp statement_timestamp " +
	"current_localtime current_localtimestamp")

// chances are the functions that answer differently each time.
var chances = words("random rand uuid gen_random_uuid setseed nextval currval uuidv4 uuidv7")

// settings are the functions that tell of the server and not of the data.
var settings = words("current_setting current_user current_schema current_schemas current_database current_query " +
	"current_catalog getenv version query query_table txid_current pg_typeof user session_user")

// functionHint is the problem of a function that can have no meaning in a view, or nil.
func functionHint(e *call) *problem.Problem {
	switch {
	case clocks[e.name]:
		return clockProblem(e.name+"()", e.at)
	case chances[e.name]:
		return unsupported(e.at, "%s() isn't supported in a view", e.name).
			WithHint("a view must give the same rows when it is built again; md5(…) of a column spreads rows evenly")
	case settings[e.name]:
		return unsupported(e.at, "%s() isn't supported in a view", e.name).WithHint("a view reads events only")
	case e.name == "row":
		return unsupported(e.at, "a row without names isn't supported in a view").
			WithHint("give its members names: {'a': …, 'b': …}")
	case e.name == "timezone":
		return unsupported(e.at, "AT TIME ZONE isn't supported").
			WithHint("times are UTC; add an INTERVAL, or convert where the rows are shown")
	case e.name == "unnest" || e.name == "generate_series" || e.name == "range" && e.sugar || e.name == "generate_subscripts":
		return unsupported(e.at, "%s isn't supported in a view", e.name).
			WithHint("send one event for each element")
	case e.name == "ago" || e.name == "age" && len(e.args) == 1:
		return clockProblem(e.name+"(…)", e.at)
	case strings.HasPrefix(e.name, "read_") || e.name == "glob" || e.name == "sniff_csv":
		return unsupported(e.at, "%s isn't supported: a view reads streams only", e.name)
	}
	return nil
}

// wordHint is the problem of a bare word that SQL gives a meaning and a view can't have, or nil.
func wordHint(name string, at int) *problem.Problem {
	lower := strings.ToLower(name)
	switch {
	case clocks[lower]:
		return clockProblem(lower, at)
	case lower == "user" || lower == "current_user" || lower == "session_user" || lower == "current_role":
		return unsupported(at, "%s isn't supported in a view", lower).WithHint("a view reads events only; a column of that name is written \"%s\"", lower)
	case lower == "rowid":
		return unsupported(at, "rowid isn't supported").WithHint("_partition and _offset name an event")
	}
	return nil
}

func clockProblem(what string, at int) *problem.Problem {
	return unsupported(at, "%s isn't supported in a view", what).
		WithHint("a view has no clock of its own: compare with another column, such as _append_time, or use a window; a panel's range filters by time")
}
