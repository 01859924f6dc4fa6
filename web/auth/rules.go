package auth

import "strings"

// Rule says who may use a route.
type Rule struct {
	// Open: everybody, also without a key.
	Open bool
	// Any are the scopes of which one is needed. Admin keys have them all but Beacon.
	Any []Scope
	// Relation: the route's :name is a relation that the key's patterns must take in.
	Relation bool
	// Everything: the answer tells of all relations, so keys with patterns are refused.
	Everything bool
	// Link: a shared dashboard's link may ask too; Relation holds it to what its panels show.
	Link bool
}

var (
	open      = Rule{Open: true}
	admin     = Rule{Any: []Scope{Admin}}
	readOne   = Rule{Any: []Scope{Read}, Relation: true}
	readList  = Rule{Any: []Scope{Read}} // the handler leaves out what the key is not for
	readPanel = Rule{Any: []Scope{Read}, Relation: true, Link: true}
	readAll   = Rule{Any: []Scope{Read}, Everything: true}
	alertOne  = Rule{Any: []Scope{Alerts}, Relation: true}
	alertList = Rule{Any: []Scope{Alerts}}
	follow    = Rule{Any: []Scope{Read, Alerts}, Link: true} // which of the two is for the relation to say
	post      = Rule{Any: []Scope{Ingest, Beacon}}
)

// rules are the rules of all routes, by method and pattern. A route that is not here is for admin
// keys (I1); a test holds the table to the routes.
var rules = map[string]Rule{
	"GET /healthz":      open,
	"GET /readyz":       open,
	"GET /openapi.json": open,
	"GET /assets/*":     open,
	"GET /metrics":      readAll,

	"GET /":              readAll,
	"GET /d/:name":       readAll,
	"GET /streams/:name": {Any: []Scope{Read}, Everything: true, Relation: true},
	"GET /views/:name":   {Any: []Scope{Read}, Everything: true, Relation: true},

	"GET /new":                       readAll,
	"GET /dead-letters":              readAll,
	"GET /ops":                       readAll,
	"GET /settings":                  readAll,
	"GET /sign-in":                   open,
	"POST /sign-in":                  open,
	"POST /settings/retention/:name": admin,
	"GET /shared/:link":              open, // the link is the right
	"POST /sign-out":                 {Any: []Scope{Read}},

	"GET /v1/streams":                                      readList,
	"GET /v1/streams/:name":                                readOne,
	"PUT /v1/streams/:name":                                admin,
	"DELETE /v1/streams/:name":                             admin,
	"GET /v1/streams/:name/partitions/:partition/events":   readOne,
	"POST /v1/streams/:name/events":                        {Any: post.Any, Relation: true},
	"POST /v1/events":                                      post, // the streams stand in the body
	"POST /v1/streams/:name/watermark":                     {Any: []Scope{Ingest}, Relation: true},
	"GET /v1/streams/:name/dead_letters":                   readOne,
	"POST /v1/streams/:name/dead_letters/:id/replay":       admin,
	"DELETE /v1/streams/:name/dead_letters/:id":            admin,
	"GET /v1/streams/:name/fate":                           readOne,
	"GET /v1/streams/:name/events/:partition/:offset/fate": readOne,
	"POST /v1/streams/:name/groups/:group/poll":            readOne,
	"POST /v1/streams/:name/groups/:group/commit":          readOne,
	"POST /v1/streams/:name/groups/:group/nack":            readOne,
	"POST /v1/streams/:name/groups/:group/seek":            readOne,
	"POST /v1/streams/:name/groups/:group/leave":           readOne,
	"GET /v1/streams/:name/groups/:group":                  readOne,
	"GET /v1/streams/:name/groups":                         readOne,
	"DELETE /v1/streams/:name/groups/:group":               admin,

	"GET /v1/views":                    readList,
	"GET /v1/views/:name":              readOne,
	"PUT /v1/views/:name":              admin,
	"DELETE /v1/views/:name":           admin,
	"GET /v1/views/:name/rows":         readPanel,
	"GET /v1/views/:name/rows/older":   readPanel,
	"GET /v1/views/:name/rows/events":  readOne,
	"GET /v1/views/:name/explain":      readOne,
	"GET /v1/views/:name/rows/history": readOne,
	"GET /v1/views/:name/errors":       readOne,
	"GET /v1/views/:name/watermark":    readPanel,
	"POST /v1/views/:name/pause":       admin,
	"POST /v1/views/:name/resume":      admin,
	"POST /v1/views/:name/rebuild":     admin,
	"POST /v1/views/:name/verify":      readOne,
	"GET /v1/views/:name/verify":       readOne,
	"POST /v1/query":                   readList, // the relations stand in the SQL
	"GET /v1/dashboards":               readList,
	"GET /v1/dashboards/:name":         readList,
	"PUT /v1/dashboards/:name":         admin,
	"DELETE /v1/dashboards/:name":      admin,

	"GET /v1/dashboards/:name/annotations":        {Any: []Scope{Read}, Link: true}, // the handler holds a link to its own
	"POST /v1/dashboards/:name/annotations":       admin,
	"DELETE /v1/dashboards/:name/annotations/:id": admin,
	"GET /v1/dashboards/:name/links":              admin,
	"POST /v1/dashboards/:name/links":             admin,
	"DELETE /v1/dashboards/:name/links/:id":       admin,

	"GET /v1/alerts":                 alertList,
	"GET /v1/alerts/:name":           alertOne,
	"PUT /v1/alerts/:name":           admin,
	"DELETE /v1/alerts/:name":        admin,
	"GET /v1/alerts/:name/log":       alertOne,
	"POST /v1/alerts/:name/test":     admin,
	"POST /v1/alerts/:name/backtest": admin,
	"GET /v1/live":                   follow, // the relations stand in the messages
	"GET /v1/live/:name":             {Any: follow.Any, Relation: true},
	"GET /v1/keys":                   admin,
	"GET /v1/keys/:name":             admin,
	"PUT /v1/keys/:name":             admin,
	"DELETE /v1/keys/:name":          admin,

	"POST /v1/backup": admin,
}

// RuleOf finds the rule of a route by its method and the pattern that it was mounted with. A HEAD
// is a GET without its body.
func RuleOf(method, pattern string) (Rule, bool) {
	if method == "HEAD" {
		method = "GET"
	}
	if len(pattern) > 1 {
		pattern = strings.TrimRight(pattern, "/")
	}
	r, ok := rules[method+" "+pattern]
	if !ok {
		r = admin
	}
	return r, ok
}
