//go:build cgo

package history

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/marcboeker/go-duckdb"

	"tidemark/storage/row"
)

// changesSuffix ends the name of the table that holds a view's changes.
const changesSuffix = "_changes"

// changeColumns are the columns that follow a view's own in its changes.
var changeColumns = []string{"_key", "_weight", "_revision", "_sequence", "_status"}

// loader applies batches, one at a time, on a connection of its own.
type loader struct {
	db *sql.DB
	// work is done by one thread that gives way to all others.
	work chan func()

	mu struct {
		sync.Mutex
		conn *sql.Conn
		// tables are what the file holds, as last committed.
		tables map[string]*table
		// checkpointDue says that DDL is in DuckDB's log: data goes behind a checkpoint (I5).
		checkpointDue bool
	}
}

// table is one relation as the file has it.
type table struct {
	relationState
	columns []row.Field
	// viewDue says that the DuckDB view over the table is missing or old.
	viewDue bool
}

// newLoader reads what the file holds, after making the table of positions when it is new.
func newLoader(db *sql.DB) (_ *loader, err error) {
	l := &loader{db: db, work: make(chan func())}
	go l.serve()
	defer func() {
		if err != nil {
			close(l.work)
		}
	}()
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.conn = conn
	l.mu.tables = map[string]*table{}
	for _, s := range []string{
		"CREATE SCHEMA IF NOT EXISTS tidemark",
		"CREATE TABLE IF NOT EXISTS tidemark.relations (relation VARCHAR, id UBIGINT, version BIGINT, position BLOB)",
	} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	rows, err := conn.QueryContext(ctx, "SELECT relation, id, version, position FROM tidemark.relations")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		t := &table{}
		if err := rows.Scan(&name, &t.ID, &t.Version, &t.Position); err != nil {
			return nil, err
		}
		l.mu.tables[name] = t
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for name, t := range l.mu.tables {
		if err := l.readColumnsLocked(ctx, name, t); err != nil {
			return nil, err
		}
		if len(t.columns) == 0 {
			return nil, fmt.Errorf("the table of %s is missing", name)
		}
		t.viewDue = true
		if err := l.viewLocked(ctx, name, t); err != nil {
			return nil, err
		}
	}
	l.mu.checkpointDue = true
	return l, l.checkpointLocked(ctx)
}

// serve does the loader's work on a thread of its own.
func (l *loader) serve() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	giveWay()
	for f := range l.work {
		f()
	}
}

// close ends the loader; nothing is applied any more.
func (l *loader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.conn.Close()
}

// readColumnsLocked asks DuckDB for a table's columns.
func (l *loader) readColumnsLocked(ctx context.Context, name string, t *table) error {
	rows, err := l.mu.conn.QueryContext(ctx,
		"SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ? ORDER BY column_index", name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var columns []row.Field
	for rows.Next() {
		var column, typ string
		if err := rows.Scan(&column, &typ); err != nil {
			return err
		}
		rt, err := row.ParseType(typ)
		if err != nil {
			return fmt.Errorf("table %s, column %s: %w", name, column, err)
		}
		columns = append(columns, row.Field{Name: column, Type: rt})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	t.columns = columns
	return nil
}

// held is a relation's position, or nil when another id or version is held.
func (l *loader) held(head loadHead) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.mu.tables[head.Relation]
	if t == nil || t.ID != head.ID || t.Version != head.Version {
		return nil
	}
	return t.Position
}

// apply takes a batch in: the schema first, in transactions of its own, then rows and position
// together (I2). A batch that begins elsewhere than the relation stands is not applied.
func (l *loader) apply(ctx context.Context, head loadHead, encoded []byte) (answer loadAnswer, err error) {
	done := make(chan any)
	l.work <- func() {
		defer func() { done <- recover() }()
		answer, err = l.take(ctx, head, encoded)
	}
	if cause := <-done; cause != nil {
		panic(cause) // the caller's to report
	}
	return answer, err
}

func (l *loader) take(ctx context.Context, head loadHead, encoded []byte) (loadAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fields := make([]row.Field, len(head.Fields))
	for i, f := range head.Fields {
		t, err := row.ParseType(f.Type)
		if err != nil {
			return loadAnswer{}, fmt.Errorf("relation %s, column %s: %w", head.Relation, f.Name, err)
		}
		fields[i] = row.Field{Name: f.Name, Type: t}
	}
	fields = distinctNames(fields)
	t := l.mu.tables[head.Relation]
	if t != nil && (t.ID != head.ID || t.Version != head.Version) {
		if t.ID == head.ID && t.Version > head.Version {
			return loadAnswer{}, nil // a batch of before the replay
		}
		if err := l.dropLocked(ctx, head.Relation); err != nil {
			return loadAnswer{}, err
		}
		t = nil
	}
	if t == nil {
		var err error
		if t, err = l.createLocked(ctx, head, fields); err != nil {
			return loadAnswer{}, err
		}
	}
	switch {
	case head.Rows == 0 && string(head.To) == string(head.From):
		// A declaration: the relation is to be there before its first row.
		return loadAnswer{Applied: true, Held: t.Position}, l.adaptLocked(ctx, head.Relation, t, fields)
	case t.Position != nil && string(head.To) == string(t.Position):
		return loadAnswer{Applied: true, Held: t.Position}, nil
	case string(head.From) != string(t.Position):
		return loadAnswer{Held: t.Position}, nil
	}
	if err := l.adaptLocked(ctx, head.Relation, t, fields); err != nil {
		return loadAnswer{}, err
	}
	if err := l.checkpointLocked(ctx); err != nil {
		return loadAnswer{}, err
	}
	var batch *row.Batch
	if head.Rows > 0 {
		var err error
		if _, batch, err = row.DecodeBatch(encoded); err != nil {
			return loadAnswer{}, fmt.Errorf("relation %s: %w", head.Relation, err)
		}
		if len(batch.Cols) != len(fields) || batch.Len != head.Rows {
			return loadAnswer{}, fmt.Errorf("relation %s: a batch of %d columns and %d rows, named %d and %d",
				head.Relation, len(batch.Cols), batch.Len, len(fields), head.Rows)
		}
	}
	if err := l.commitLocked(ctx, head, t, fields, batch); err != nil {
		return loadAnswer{}, err
	}
	t.Position = head.To
	return loadAnswer{Applied: true, Held: t.Position}, nil
}

// commitLocked writes rows and position in one transaction.
func (l *loader) commitLocked(ctx context.Context, head loadHead, t *table, fields []row.Field, batch *row.Batch) (err error) {
	// A client that goes away must not leave half a transaction behind on the connection.
	ctx = context.WithoutCancel(ctx)
	if _, err := l.mu.conn.ExecContext(ctx, "BEGIN TRANSACTION"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = l.mu.conn.ExecContext(ctx, "ROLLBACK")
		}
	}()
	if batch != nil {
		if err := l.insertLocked(ctx, head.Relation, t, fields, batch); err != nil {
			return fmt.Errorf("relation %s: %w", head.Relation, err)
		}
	}
	if _, err := l.mu.conn.ExecContext(ctx, "UPDATE tidemark.relations SET position = ? WHERE relation = ?", head.To, head.Relation); err != nil {
		return err
	}
	_, err = l.mu.conn.ExecContext(ctx, "COMMIT")
	return err
}

// stage is a temporary table for rows on their way.
const stage = "_tidemark_stage"

// insertLocked adds rows to a table, through a table of their own where the driver's appender can't
// take them as they are.
func (l *loader) insertLocked(ctx context.Context, name string, t *table, fields []row.Field, batch *row.Batch) error {
	staged, values, direct := staging(t.columns, fields, batch)
	if direct {
		return l.appendLocked("main", name, t.columns, fields, batch)
	}
	if _, err := l.mu.conn.ExecContext(ctx, "CREATE OR REPLACE TEMP TABLE "+stage+" ("+columnList(staged)+")"); err != nil {
		return err
	}
	if err := l.appendLocked("", stage, staged, fields, batch); err != nil {
		return err
	}
	if _, err := l.mu.conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%s SELECT %s FROM temp.%s", quote(name), strings.Join(values, ", "), stage)); err != nil {
		return err
	}
	_, err := l.mu.conn.ExecContext(ctx, "DROP TABLE temp."+stage)
	return err
}

// staging says how a batch comes into a table with these columns: direct by the appender, or by a
// table with the columns staged, from which the values are selected. JSON goes as text, because the
// appender would write it anew and it is kept as it came; instants of which one is outside the
// appender's years go as microseconds; lists that the appender would spoil go as JSON.
func staging(columns, fields []row.Field, batch *row.Batch) (staged []row.Field, values []string, direct bool) {
	staged, values, direct = slices.Clone(columns), make([]string, len(columns)), true
	for i, c := range columns {
		values[i] = fmt.Sprintf("CAST(%s AS %s)", quote(c.Name), columnType(c.Type))
		if hasJSON(c.Type) {
			staged[i].Type, direct = withoutJSON(c.Type), false
		}
		b := row.FieldIndex(fields, c.Name)
		if b >= 0 && isNested(c.Type) && spoiled(batch.Cols[b]) {
			staged[i].Type, direct = row.Scalar(row.Varchar), false
			values[i] = fmt.Sprintf("CAST(CAST(CAST(%s AS JSON) AS %s) AS %s)", quote(c.Name), columnType(withoutJSON(c.Type)), columnType(c.Type))
		}
		if b >= 0 && c.Type.Kind == row.Timestamp && hasFarInstants(batch.Cols[b]) {
			staged[i].Type, direct = row.Scalar(row.BigInt), false
			values[i] = fmt.Sprintf("make_timestamp(%s)", quote(c.Name))
		}
	}
	return staged, values, direct
}

func hasJSON(t row.Type) bool { return !withoutJSON(t).Equal(t) }

// withoutJSON is the type with text for JSON.
func withoutJSON(t row.Type) row.Type {
	switch t.Kind {
	case row.JSON:
		return row.Scalar(row.Varchar)
	case row.List:
		return row.ListOf(withoutJSON(*t.Elem))
	case row.Struct:
		members := slices.Clone(t.Fields)
		for i := range members {
			members[i].Type = withoutJSON(members[i].Type)
		}
		return row.StructOf(members...)
	}
	return t
}

// appendLocked hands rows to DuckDB's appender.
func (l *loader) appendLocked(schema, name string, columns, fields []row.Field, batch *row.Batch) error {
	return appendRows(l.mu.conn, schema, name, columns, fields, batch)
}

// appendRows hands rows to DuckDB's appender for a table with these columns.
func appendRows(conn *sql.Conn, schema, name string, columns, fields []row.Field, batch *row.Batch) error {
	// from is the batch's column for each of the table's, −1 for none.
	from := make([]int, len(columns))
	for i, c := range columns {
		from[i] = row.FieldIndex(fields, c.Name)
	}
	return conn.Raw(func(dc any) (err error) {
		app, err := duckdb.NewAppenderFromConn(dc.(driver.Conn), schema, name)
		if err != nil {
			return err
		}
		// An appender is closed on every path: it holds memory that Go does not see.
		defer func() { err = errors.Join(err, app.Close()) }()
		values := make([]driver.Value, len(columns))
		for i := range batch.Len {
			for c, b := range from {
				values[c] = nil
				if b >= 0 {
					if values[c], err = appenderValue(batch.Cols[b], i, columns[c].Type); err != nil {
						return fmt.Errorf("column %s: %w", columns[c].Name, err)
					}
				}
			}
			if err := app.AppendRow(values...); err != nil {
				return err
			}
		}
		return nil
	})
}

// createLocked makes a relation's table and its row of positions.
func (l *loader) createLocked(ctx context.Context, head loadHead, fields []row.Field) (*table, error) {
	if len(fields) == 0 {
		return nil, fmt.Errorf("relation %s has no columns", head.Relation)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE main.%s (", quote(head.Relation))
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", quote(f.Name), columnType(f.Type))
	}
	b.WriteString(")")
	err := l.ddlLocked(ctx,
		statement{sql: b.String()},
		statement{sql: "INSERT INTO tidemark.relations VALUES (?, ?, ?, NULL)", args: []any{head.Relation, head.ID, head.Version}})
	if err != nil {
		return nil, err
	}
	t := &table{relationState: relationState{ID: head.ID, Version: head.Version}}
	if err := l.readColumnsLocked(ctx, head.Relation, t); err != nil {
		return nil, err
	}
	t.viewDue = true
	l.mu.tables[head.Relation] = t
	return t, nil
}

// adaptLocked adds the columns that are new and widens those whose type grew.
func (l *loader) adaptLocked(ctx context.Context, name string, t *table, fields []row.Field) error {
	var changes []statement
	for _, f := range fields {
		i := row.FieldIndex(t.columns, f.Name)
		switch {
		case i < 0:
			changes = append(changes, statement{sql: fmt.Sprintf("ALTER TABLE main.%s ADD COLUMN %s %s", quote(name), quote(f.Name), columnType(f.Type))})
		default:
			from, to := t.columns[i].Type, unite(t.columns[i].Type, f.Type)
			if !from.Equal(to) {
				changes = append(changes, statement{sql: fmt.Sprintf("ALTER TABLE main.%s ALTER COLUMN %s SET DATA TYPE %s USING %s",
					quote(name), quote(f.Name), columnType(to), convert(quote(f.Name), from, to, 0))})
			}
		}
	}
	if len(changes) == 0 {
		return l.viewLocked(ctx, name, t)
	}
	for _, s := range changes { // one a transaction: DuckDB alters a table once in each
		if err := l.ddlLocked(ctx, s); err != nil {
			return err
		}
	}
	t.viewDue = true
	if err := l.readColumnsLocked(ctx, name, t); err != nil {
		return err
	}
	return l.viewLocked(ctx, name, t)
}

// dropLocked removes a relation with its rows and position.
func (l *loader) dropLocked(ctx context.Context, name string) error {
	var changes []statement
	if view, ok := viewOf(name, l.mu.tables[name]); ok && l.mu.tables[view] == nil {
		changes = append(changes, statement{sql: "DROP VIEW IF EXISTS main." + quote(view)})
	}
	changes = append(changes, statement{sql: "DROP TABLE IF EXISTS main." + quote(name)},
		statement{sql: "DELETE FROM tidemark.relations WHERE relation = ?", args: []any{name}})
	if err := l.ddlLocked(ctx, changes...); err != nil {
		return err
	}
	delete(l.mu.tables, name)
	return nil
}

func (l *loader) drop(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.tables[name] == nil {
		return nil
	}
	if err := l.dropLocked(ctx, name); err != nil {
		return err
	}
	return l.checkpointLocked(ctx)
}

type statement struct {
	sql  string
	args []any
}

// ddlLocked runs statements in one transaction and notes that a checkpoint is due.
func (l *loader) ddlLocked(ctx context.Context, statements ...statement) (err error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := l.mu.conn.ExecContext(ctx, "BEGIN TRANSACTION"); err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := l.mu.conn.ExecContext(ctx, s.sql, s.args...); err != nil {
			_, _ = l.mu.conn.ExecContext(ctx, "ROLLBACK")
			return fmt.Errorf("%s: %w", s.sql, err)
		}
	}
	if _, err := l.mu.conn.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = l.mu.conn.ExecContext(ctx, "ROLLBACK")
		return err
	}
	l.mu.checkpointDue = true
	return nil
}

// checkpointLocked moves DDL from DuckDB's log into its file. While a query holds an older state
// DuckDB may refuse; then the next load tries again.
func (l *loader) checkpointLocked(ctx context.Context) error {
	if !l.mu.checkpointDue {
		return nil
	}
	_, err := l.mu.conn.ExecContext(context.WithoutCancel(ctx), "CHECKPOINT")
	switch {
	case err == nil:
		l.mu.checkpointDue = false
	case strings.Contains(err.Error(), "Cannot CHECKPOINT"):
		fmt.Fprintln(os.Stderr, "checkpoint put off:", plainMessage(err.Error()))
	default:
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// viewLocked makes the DuckDB view of a view's changes when that is due: its rows are those whose weights add up
// to more than nothing, as often as they add up to.
func (l *loader) viewLocked(ctx context.Context, name string, t *table) error {
	view, ok := viewOf(name, t)
	if !ok || !t.viewDue {
		return nil
	}
	var own, shown []string
	for _, f := range t.columns {
		if !slices.Contains(changeColumns, f.Name) {
			own = append(own, quote(f.Name))
			shown = append(shown, quote(f.Name)+" AS "+quote(viewColumn(f.Name)))
		}
	}
	if len(own) == 0 {
		return nil
	}
	columns := strings.Join(own, ", ")
	err := l.ddlLocked(ctx, statement{sql: fmt.Sprintf("CREATE OR REPLACE VIEW main.%s AS SELECT %s FROM ("+
		"SELECT %s, _key, sum(_weight) AS _weight FROM main.%s GROUP BY %s, _key HAVING sum(_weight) > 0), range(_weight::BIGINT)",
		quote(view), strings.Join(shown, ", "), columns, quote(name), columns)})
	t.viewDue = err != nil
	return err
}

// viewColumn undoes what distinctNames did to a view's column that is named as one of ours.
func viewColumn(name string) string {
	if base, ok := strings.CutSuffix(name, "_1"); ok && slices.Contains(changeColumns, base) {
		return base
	}
	return name
}

// relations lists what the file holds.
func (l *loader) relations() []heldRelation {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]heldRelation, 0, len(l.mu.tables))
	for name, t := range l.mu.tables {
		list = append(list, heldRelation{name, t.ID, t.Version})
	}
	slices.SortFunc(list, func(a, b heldRelation) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// viewOf is the name of the view whose changes a table holds.
func viewOf(name string, t *table) (string, bool) {
	view, ok := strings.CutSuffix(name, changesSuffix)
	if !ok || view == "" || t == nil {
		return "", false
	}
	for _, c := range changeColumns {
		if row.FieldIndex(t.columns, c) < 0 {
			return "", false
		}
	}
	return view, true
}

// ownColumns are the names that Tidemark gives to columns of its own; they stand behind a
// relation's and keep their names.
var ownColumns = append([]string{"_partition", "_offset", "_time", "_append_time"}, changeColumns...)

// distinctNames gives columns whose names differ by case only, or not at all, a number: the first
// keeps its name, but Tidemark's own before the relation's.
func distinctNames(fields []row.Field) []row.Field {
	taken := map[string]bool{}
	keeps := make([]bool, len(fields))
	for i := len(fields) - 1; i >= 0; i-- {
		if name := fields[i].Name; slices.Contains(ownColumns, name) && !taken[name] {
			taken[name], keeps[i] = true, true
		}
	}
	for i, f := range fields {
		name := f.Name
		for n := 1; !keeps[i] && taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s_%d", f.Name, n)
		}
		fields[i].Name = name
		taken[strings.ToLower(name)] = true
	}
	return fields
}

// rank orders the numbers by what holds what.
var rank = map[row.Kind]int{row.TinyInt: 1, row.SmallInt: 2, row.Integer: 3, row.BigInt: 4, row.HugeInt: 5, row.Float: 6, row.Double: 7}

// unite is the type that holds what a column has and what a batch brings. Batches of both types
// are converted as they are appended.
func unite(has, brings row.Type) row.Type {
	a, b := rank[has.Kind], rank[brings.Kind]
	switch {
	case brings.Kind == row.Null:
		return has
	case a > 0 && b > 0:
		if a >= b {
			return has
		}
	case has.Kind == row.List && brings.Kind == row.List:
		return row.ListOf(unite(*has.Elem, *brings.Elem))
	case has.Kind == row.Struct && brings.Kind == row.Struct:
		members := slices.Clone(has.Fields)
		for _, f := range brings.Fields {
			if i := row.FieldIndex(members, f.Name); i >= 0 {
				members[i].Type = unite(members[i].Type, f.Type)
			} else {
				members = append(members, f)
			}
		}
		return row.StructOf(members...)
	}
	return brings
}

// convert writes the expression that turns one of type from into one of type to. DuckDB casts a
// STRUCT only to one of as many members.
func convert(expr string, from, to row.Type, depth int) string {
	switch {
	case from.Equal(to):
		return expr
	case from.Kind == row.List && to.Kind == row.List:
		x := fmt.Sprintf("x%d", depth)
		return fmt.Sprintf("list_transform(%s, %s -> %s)", expr, x, convert(x, *from.Elem, *to.Elem, depth+1))
	case from.Kind == row.Struct && to.Kind == row.Struct:
		members := make([]string, len(to.Fields))
		for i, f := range to.Fields {
			value := "CAST(NULL AS " + columnType(f.Type) + ")"
			if k := row.FieldIndex(from.Fields, f.Name); k >= 0 {
				value = convert("struct_extract("+expr+", '"+strings.ReplaceAll(from.Fields[k].Name, "'", "''")+"')", from.Fields[k].Type, f.Type, depth+1)
			}
			members[i] = quote(f.Name) + " := " + value
		}
		return fmt.Sprintf("CASE WHEN %s IS NULL THEN NULL ELSE struct_pack(%s) END", expr, strings.Join(members, ", "))
	}
	return "CAST(" + expr + " AS " + columnType(to) + ")"
}

// columnType is the type of a column; one that knows NULL only gets DuckDB's type for that.
func columnType(t row.Type) string {
	if t.Kind == row.Null {
		return "INTEGER"
	}
	return t.String()
}

// quote writes a name so that no name is a keyword or more than a name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// loadError is what the parent hears of a load that failed.
func loadError(err error) *wireError {
	return &wireError{Status: 500, Code: "history_load", Detail: plainMessage(err.Error()), Position: -1}
}
