// Package web is the edge of the server: one port that serves the HTTP API, the websocket, the
// pages and the metrics.
//
// A request passes, from the outside in:
//
//	listener   closes gently when a body was refused unread, so that the answer arrives
//	fasthttp   limits on header size, body size and time
//	shell      recover; methods that are none
//	trace      request id, access log, error mapping
//	guard      framing, number of headers; without keys Host and Origin
//	auth       who asks (package auth), and the rule of the route before its handler
//	handlers   web/api, web/live, and what the caller mounts (events, pages)
//
// A handler reads, calls and answers; what goes wrong it returns as an error. Errors become
// problem documents in one place, [App.fail], also Fiber's own (404, 405, 413, 431).
//
//	I1  A panic in a handler is a 500; the server goes on.
//	I2  Without keys only loopback is listened on, only loopback names are answered to (421), and
//	    no request with a foreign Origin is taken, whatever its method, upgrades included.
//	    With keys on, a request without a valid one is refused before its body is read.
//	I3  Every answer carries X-Request-Id; a 5xx has one line in the log with the same id.
//	I4  The log names route patterns, never paths, queries, bodies or keys.
//	I5  After Shutdown has begun no new request is taken, those in flight are finished, and each
//	    websocket gets {"type":"reconnect"} and close code 1012.
package web
