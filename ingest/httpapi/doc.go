// Package httpapi serves ingest over HTTP: events, dead letters, the watermark.
//
//	I1  Bodies are read as they came (BodyRaw): Fiber's Body inflates without a bound.
//	I2  Nothing of a request is kept after its handler: fasthttp uses the memory again. What is
//	    kept is copied, names by strings.Clone, bodies by ingest.
//	I3  Every error is an RFC 9457 problem with the request's id.
package httpapi
