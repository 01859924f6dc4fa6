// Package pages answers what a browser asks for: it reads streams, views and dashboards, makes view
// models of them and lets web/ui draw these.
//
//	/               what flows, how fast, what is behind; on an empty server: the first event
//	/d/{dashboard}  live panels
//	/streams/{name} tail, columns, partitions, dead letters
//	/views/{name}   rows, SQL, plan, row errors, late events
//	/new            a form that makes a view
//	/dead-letters   what could not be used, to be mended and sent again
//	/ops            throughput, latency, lag, queues and their bounds
//	/settings       keys and retention
//	/assets/…       styles and scripts, for ever
//
//	I1  A page is complete without its script: values and tables stand in the HTML.
//	I2  Every page has a content security policy with a nonce of its own.
package pages
