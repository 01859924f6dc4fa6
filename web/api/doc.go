// Package api is the JSON API over HTTP, one endpoint a file.
//
// A handler reads path, query and body, calls what [Deps] names, and answers; errors it returns,
// package web makes problem documents of them. What an endpoint needs is an interface here, with
// the verbs that it needs; web/bind connects the real things.
//
//	I1  Unknown members of a body and unknown parameters of an address are refused by name (400):
//	    a misspelt option is never silently a default.
//	I2  Strings of Fiber are copied before they are kept: it overwrites them after the handler.
//	I3  A body is read as it came and never inflated: Fiber would do so without a bound.
//	I4  Lists are {"items":[…],"next":cursor or null}; a cursor of another list is 400.
//	I5  Each route is in the OpenAPI document, and each path of it is a route.
package api
