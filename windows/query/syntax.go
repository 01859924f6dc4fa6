package query

import "tidemark/storage/row"

// The syntax of a text as the binder reads it. ast.go makes it from DuckDB's tree.

// sqlExpr is an expression of the text.
type sqlExpr interface{ head() *exprHead }

// exprHead is what all expressions have.
type exprHead struct {
	at    int    // byte offset in the text, −1 when unknown
	alias string // AS, in a SELECT list
}

func (h *exprHead) head() *exprHead { return h }

type (
	columnRef struct {
		exprHead
		names []string
	}
	literal struct {
		exprHead
		value *row.Vector // one value
	}
	call struct {
		exprHead
		name     string // lower case
		sugar    bool   // the parser wrote the function for another syntax, such as [1, 2]
		operator bool
		args     []sqlExpr
		filter   sqlExpr
		order    []sortKey
		distinct bool
		// rewritten: the parser wrote another text, which is the alias.
		rewritten bool
	}
	// comparison, with the operator as SQL writes it.
	comparison struct {
		exprHead
		op          string
		left, right sqlExpr
	}
	// conjunction is AND or OR.
	conjunction struct {
		exprHead
		op   string
		args []sqlExpr
	}
	// operation is one of DuckDB's OPERATOR nodes, by its type.
	operation struct {
		exprHead
		op   string
		args []sqlExpr
	}
	between struct {
		exprHead
		input, lower, upper sqlExpr
	}
	caseWhen struct {
		exprHead
		whens, thens []sqlExpr
		els          sqlExpr
	}
	castTo struct {
		exprHead
		child sqlExpr
		to    row.Type
		try   bool
	}
	star struct {
		exprHead
		relation string
		exclude  []string
		replace  []sqlExpr // with their names as aliases
	}
	// arrow is a lambda function or the JSON operator ->.
	arrow struct {
		exprHead
		left, right sqlExpr
		// params are those of a lambda function; nil: it is the operator.
		params []string
	}
	subqueryExpr struct {
		exprHead
		kind  string // SCALAR, EXISTS, ANY, NOT_EXISTS
		query sqlQuery
	}
	over struct {
		exprHead
		name       string
		args       []sqlExpr
		partitions []sqlExpr
		order      []sortKey
		start, end string
		startExpr  sqlExpr
		endExpr    sqlExpr
		offset     sqlExpr
		deflt      sqlExpr
		filter     sqlExpr
		ignoreNull bool
		exclude    string
		distinct   bool
	}
	// otherExpr is an expression that has a name and nothing else here: a lambda, a parameter.
	otherExpr struct {
		exprHead
		what string
	}
)

// sortKey is one key of an ORDER BY.
type sortKey struct {
	expr      sqlExpr
	desc      bool
	nullsLast bool
}

// sqlTable is something in FROM.
type sqlTable interface{ place() *tableHead }

type tableHead struct {
	at      int
	alias   string
	columns []string // column aliases
}

func (h *tableHead) place() *tableHead { return h }

type (
	baseTable struct {
		tableHead
		name string
	}
	tableFunction struct {
		tableHead
		call *call
		// first is where its first argument stands in the text: the function itself has no place.
		first int
	}
	derivedTable struct {
		tableHead
		query sqlQuery
	}
	joinTable struct {
		tableHead
		left, right sqlTable
		condition   sqlExpr
		joinType    string // INNER, LEFT, RIGHT, OUTER, SEMI, ANTI
		refType     string // REGULAR, NATURAL, CROSS, POSITIONAL, ASOF
		using       []string
	}
	emptyTable struct{ tableHead }
	// otherTable is a kind of table that has a name and nothing else here.
	otherTable struct {
		tableHead
		what string
	}
)

// sqlQuery is a SELECT or several put together.
type sqlQuery interface{ common() *queryHead }

type queryHead struct {
	at       int
	ctes     []cte
	distinct bool
	on       []sqlExpr // DISTINCT ON
	order    []sortKey
	orderAt  int
	limit    sqlExpr
	offset   sqlExpr
	percent  bool
	limitAt  int
}

func (h *queryHead) common() *queryHead { return h }

type cte struct {
	name    string
	columns []string
	query   sqlQuery
}

type (
	selectQuery struct {
		queryHead
		items    []sqlExpr
		from     sqlTable
		where    sqlExpr
		groups   []sqlExpr
		groupAll bool
		sets     [][]int
		having   sqlExpr
		qualify  sqlExpr
	}
	setQuery struct {
		queryHead
		op          string // UNION, EXCEPT, INTERSECT, UNION_BY_NAME
		all         bool
		left, right sqlQuery
	}
	// otherQuery is a kind of query that has a name and nothing else here.
	otherQuery struct {
		queryHead
		what string
	}
)
