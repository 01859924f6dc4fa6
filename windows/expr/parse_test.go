package expr

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/storage/row"
)

// parser reads SQL expressions for the tests, so that golden files are tables of plain SQL. The
// product's own texts are parsed by DuckDB.
type parser struct {
	toks   []string
	at     int
	fields []row.Field
}

// parseExpr compiles a SQL expression over columns of these fields.
func parseExpr(text string, fields []row.Field) (e *Expr, err error) {
	p := &parser{toks: tokens(text), fields: fields}
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(error)
			if !ok {
				panic(r)
			}
			e, err = nil, bad
		}
	}()
	e = p.or()
	if p.at < len(p.toks) {
		return nil, fmt.Errorf("unexpected %q", p.toks[p.at])
	}
	return e, nil
}

func must(e *Expr, err error) *Expr {
	if err != nil {
		panic(err)
	}
	return e
}

func tokens(s string) []string {
	var out []string
	word := func(c byte) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for i := 0; i < len(s); {
		c := s[i]
		j := i + 1
		switch {
		case c == ' ':
			i++
			continue
		case c == '\'' || c == '"':
			for j < len(s) && (s[j] != c || j+1 < len(s) && s[j+1] == c) {
				if s[j] == c {
					j++
				}
				j++
			}
			j++
		case c >= '0' && c <= '9' || c == '.' && j < len(s) && s[j] >= '0' && s[j] <= '9':
			for j < len(s) && (s[j] == '.' || s[j] >= '0' && s[j] <= '9' || s[j] == 'e' || s[j] == 'E') {
				j++
			}
		case word(c):
			for j < len(s) && word(s[j]) {
				j++
			}
		default:
			for _, op := range []string{"->>", "!~~*", "!~~", "->", "::", ":=", "<=", ">=", "<>", "!=", "||", "//", "**", "<<", ">>", "!~", "^@", "@>", "&&"} {
				if strings.HasPrefix(s[i:], op) {
					j = i + len(op)
					break
				}
			}
		}
		out = append(out, s[i:j])
		i = j
	}
	return out
}

func (p *parser) peek() string {
	if p.at < len(p.toks) {
		return p.toks[p.at]
	}
	return ""
}

// is takes the words if they come next.
func (p *parser) is(words ...string) bool {
	for k, w := range words {
		if p.at+k >= len(p.toks) || !strings.EqualFold(p.toks[p.at+k], w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

func (p *parser) want(w string) {
	if !p.is(w) {
		panic(fmt.Errorf("%s is missing before %q", w, p.peek()))
	}
}

func (p *parser) or() *Expr {
	e := p.and()
	for p.is("OR") {
		e = must(Or(e, p.and()))
	}
	return e
}

func (p *parser) and() *Expr {
	e := p.not()
	for p.is("AND") {
		e = must(And(e, p.not()))
	}
	return e
}

func (p *parser) not() *Expr {
	if p.is("NOT") {
		return must(Not(p.not()))
	}
	return p.comparison()
}

func (p *parser) comparison() *Expr {
	e := p.test()
	for {
		switch op := p.peek(); op {
		case "=", "<>", "!=", "<", "<=", ">", ">=":
			p.at++
			e = must(Call(op, []*Expr{e, p.test()}))
		default:
			return e
		}
	}
}

// test reads IS, IN, BETWEEN and LIKE behind an operand.
func (p *parser) test() *Expr {
	e := p.operators()
	for {
		switch {
		case p.is("IS", "NULL"):
			e = IsNull(e)
		case p.is("IS", "NOT", "NULL"):
			e = IsNotNull(e)
		case p.is("IS", "DISTINCT", "FROM"):
			e = must(DistinctFrom(e, p.operators()))
		case p.is("IS", "NOT", "DISTINCT", "FROM"):
			e = must(NotDistinctFrom(e, p.operators()))
		default:
			negate := p.is("NOT")
			next, ok := p.positiveTest(e)
			if !ok {
				if negate {
					p.at--
				}
				return e
			}
			if e = next; negate {
				e = must(Not(e))
			}
		}
	}
}

func (p *parser) positiveTest(e *Expr) (*Expr, bool) {
	switch {
	case p.is("IN"):
		p.want("(")
		return must(In(e, p.list(")"))), true
	case p.is("BETWEEN"):
		low := p.operators()
		p.want("AND")
		high := p.operators()
		return must(And(must(Call(">=", []*Expr{e, low})), must(Call("<=", []*Expr{e, high})))), true
	case p.is("LIKE"):
		pattern := p.operators()
		if p.is("ESCAPE") {
			return must(Call("like_escape", []*Expr{e, pattern, p.operators()})), true
		}
		return must(Call("~~", []*Expr{e, pattern})), true
	case p.is("ILIKE"):
		return must(Call("~~*", []*Expr{e, p.operators()})), true
	case p.is("GLOB"):
		return must(Call("~~~", []*Expr{e, p.operators()})), true
	case p.is("SIMILAR", "TO"):
		return must(Call("regexp_full_match", []*Expr{e, p.operators()})), true
	}
	return nil, false
}

func (p *parser) binary(next func() *Expr, ops string) *Expr {
	e := next()
	for {
		op := p.peek()
		if op == "" || !strings.Contains(" "+ops+" ", " "+op+" ") {
			return e
		}
		p.at++
		e = must(Call(op, []*Expr{e, next()}))
	}
}

func (p *parser) operators() *Expr { return p.binary(p.sum, "|| -> ->> & | << >> ~ !~ ^@ && @>") }
func (p *parser) sum() *Expr       { return p.binary(p.product, "+ -") }
func (p *parser) product() *Expr   { return p.binary(p.power, "* / // %") }
func (p *parser) power() *Expr     { return p.binary(p.unary, "^ **") }

func (p *parser) unary() *Expr {
	for _, op := range []string{"-", "~", "@", "+"} {
		if p.is(op) {
			return must(Call(op, []*Expr{p.unary()}))
		}
	}
	return p.postfix(p.primary())
}

func (p *parser) postfix(e *Expr) *Expr {
	for {
		switch {
		case p.is("::"):
			e = must(Cast(e, p.typ(), false))
		case p.is("."):
			name := p.peek()
			p.at++
			e = must(StructField(e, name))
		case p.is("["):
			var from, to *Expr
			if p.peek() != ":" {
				from = p.or()
			}
			if p.is("]") {
				e = must(Call("array_extract", []*Expr{e, from}))
				continue
			}
			p.want(":")
			if p.peek() != "]" {
				to = p.or()
			}
			p.want("]")
			open := func(x *Expr) *Expr {
				if x == nil {
					return Const(&row.Vector{Type: row.ListOf(tInt), Str: []string{""}}) // as DuckDB's parser gives it
				}
				return x
			}
			e = must(Call("array_slice", []*Expr{e, open(from), open(to)}))
		default:
			return e
		}
	}
}

// typ reads the tokens of a type.
func (p *parser) typ() row.Type {
	text := p.peek()
	p.at++
	if p.peek() == "(" {
		depth := 0
		for {
			t := p.peek()
			p.at++
			text += " " + t
			if t == "(" {
				depth++
			}
			if t == ")" {
				if depth--; depth == 0 {
					break
				}
			}
		}
	}
	for p.is("[", "]") {
		text += "[]"
	}
	t, err := row.ParseType(text)
	if err != nil {
		panic(err)
	}
	return t
}

func (p *parser) list(end string) []*Expr {
	var args []*Expr
	if p.is(end) {
		return nil
	}
	for {
		args = append(args, p.or())
		if p.is(end) {
			return args
		}
		p.want(",")
	}
}

func text(s string) *Expr {
	v := row.NewVector(tVarchar, 1)
	v.AppendString(s)
	return Const(v)
}

func (p *parser) primary() *Expr {
	tok := p.peek()
	p.at++
	switch c := tok[0]; {
	case c == '\'':
		return text(strings.ReplaceAll(tok[1:len(tok)-1], "''", "'"))
	case c >= '0' && c <= '9' || c == '.':
		return number(tok)
	case tok == "(":
		e := p.or()
		p.want(")")
		return e
	case tok == "[":
		return must(Call("list_value", p.list("]")))
	case tok == "{":
		var names []string
		var args []*Expr
		for {
			names = append(names, strings.Trim(p.peek(), `'"`))
			p.at++
			p.want(":")
			args = append(args, p.or())
			if p.is("}") {
				return must(Struct(names, args))
			}
			p.want(",")
		}
	}
	switch strings.ToUpper(tok) {
	case "NULL":
		v := row.NewVector(tNull, 1)
		v.AppendNull()
		return Const(v)
	case "TRUE", "FALSE":
		v := row.NewVector(tBool, 1)
		v.AppendInt64(b2i(strings.EqualFold(tok, "true")))
		return Const(v)
	case "CASE":
		return p.caseWhen()
	case "CAST", "TRY_CAST":
		p.want("(")
		e := p.or()
		p.want("AS")
		t := p.typ()
		p.want(")")
		return must(Cast(e, t, strings.EqualFold(tok, "TRY_CAST")))
	case "DATE", "TIMESTAMP", "INTERVAL":
		if strings.HasPrefix(p.peek(), "'") {
			t, _ := row.ParseType(tok)
			e := p.primary()
			return must(Cast(e, t, false))
		}
		if strings.EqualFold(tok, "INTERVAL") {
			n := p.primary()
			unit := strings.ToLower(p.peek())
			p.at++
			return must(Call("to_"+strings.TrimSuffix(unit, "s")+"s", []*Expr{n}))
		}
	}
	if p.is("(") {
		return p.call(tok)
	}
	if i := row.FieldIndex(p.fields, tok); i >= 0 {
		return Column(i, p.fields[i])
	}
	panic(fmt.Errorf("no column %s", tok))
}

func (p *parser) call(name string) *Expr {
	if strings.EqualFold(name, "position") || strings.EqualFold(name, "extract") {
		first := p.peek()
		var a *Expr
		if strings.EqualFold(name, "extract") {
			p.at++
			a = text(strings.Trim(first, "'"))
			p.want("FROM")
			b := p.or()
			p.want(")")
			return must(Call("date_part", []*Expr{a, b}))
		}
		a = p.operators()
		p.want("IN")
		b := p.or()
		p.want(")")
		return must(Call("position", []*Expr{b, a}))
	}
	if strings.EqualFold(name, "struct_pack") {
		var names []string
		var args []*Expr
		for {
			names = append(names, p.peek())
			p.at++
			p.want(":=")
			args = append(args, p.or())
			if p.is(")") {
				return must(Struct(names, args))
			}
			p.want(",")
		}
	}
	return must(Call(name, p.list(")")))
}

func (p *parser) caseWhen() *Expr {
	var subject, els *Expr
	if !strings.EqualFold(p.peek(), "WHEN") {
		subject = p.or()
	}
	var whens, thens []*Expr
	for p.is("WHEN") {
		w := p.or()
		if subject != nil {
			w = must(Call("=", []*Expr{subject, w}))
		}
		p.want("THEN")
		whens, thens = append(whens, w), append(thens, p.or())
	}
	if p.is("ELSE") {
		els = p.or()
	}
	p.want("END")
	return must(Case(whens, thens, els))
}

// number types a written number as DuckDB does.
func number(tok string) *Expr {
	var t row.Type
	switch whole, part, point := strings.Cut(tok, "."); {
	case strings.ContainsAny(tok, "eE"):
		t = tDouble
	case point && len(whole)+len(part) <= 38:
		t = row.DecimalType(uint8(len(whole)+len(part)), uint8(len(part)))
	case point:
		t = tDouble
	default:
		t = tDouble
		if x, err := row.ParseInt128(tok); err == nil {
			t = tHuge
			if x.IsInt64() {
				t = tBig
				if v := x.Int64(); v == int64(int32(v)) {
					t = tInt
				}
			}
		}
	}
	v := row.NewVector(t, 1)
	switch t.Class() {
	case row.Float64Class:
		f, _ := strconv.ParseFloat(tok, 64)
		v.AppendFloat64(f)
	case row.Int128Class:
		x, _ := parseDecimal(tok, int(t.Scale))
		v.AppendInt128(x)
	default:
		x, _ := parseDecimal(tok, int(t.Scale))
		v.AppendInt64(x.Int64())
	}
	return Const(v)
}
