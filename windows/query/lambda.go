package query

import (
	"strings"

	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// param is a parameter of a lambda function.
type param struct {
	name  string
	value *expr.Expr
}

// param is the place of the parameter of a lambda function that a reference means, or −1.
func (e *arrow) param(c *columnRef) int {
	for i, name := range e.params {
		if strings.EqualFold(name, c.names[0]) {
			return i
		}
	}
	return -1
}

// param is the parameter that a reference means, and the members of STRUCTs behind it, or nil. It
// hides a column of its name.
func (s *scope) param(c *columnRef) (*expr.Expr, []string) {
	for i := len(s.params) - 1; i >= 0; i-- {
		if strings.EqualFold(s.params[i].name, c.names[0]) {
			return s.params[i].value, c.names[1:]
		}
	}
	return nil, nil
}

// readsParams reports whether an expression names a parameter of a lambda function around it.
func (s *scope) readsParams(e sqlExpr) (found bool) {
	if len(s.params) == 0 {
		return false
	}
	each(e, func(e sqlExpr) bool {
		if c, ok := e.(*columnRef); ok {
			x, _ := s.param(c)
			found = found || x != nil
		}
		return !found
	})
	return found
}

// lambda binds a function over a list and a lambda function.
func (b *binder) lambda(e *call, a *arrow, s *scope) *expr.Expr {
	if o := findOver(a.right); o != nil {
		refuse(unsupported(o.at, "a window function inside a lambda function isn't supported").WithHint("put it into a subquery"))
	}
	list := b.value(e.args[0], s)
	types, err := expr.ParamTypes(e.name, list.Type)
	if err != nil {
		refuse(typeProblem(err, e))
	}
	inner := *s
	first := len(s.params)
	inner.params = s.params[:first:first]
	for i, name := range a.params[:min(len(a.params), len(types))] {
		inner.params = append(inner.params, param{name, expr.Param(first+i, row.Field{Name: name, Type: types[i]})})
	}
	return b.made(e)(expr.Lambda(e.name, list, first, a.params, b.value(a.right, &inner)))
}
