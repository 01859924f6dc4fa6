// Package ui draws the pages: templ components, their styles and scripts.
//
// A component takes a view model (model.go), never a service: who calls it has already read what
// is to be shown. The first answer of a page holds its values and tables as HTML, so that it is
// useful without JavaScript; the script (src/, built into static/ by esbuild) then subscribes to
// /v1/live and redraws in place. uPlot lies unmodified under vendor/ and is loaded only where a
// chart is shown.
//
//	I1  No inline script and no style attribute: the content security policy allows neither.
//	    What a page must style by data (the grid of a dashboard) stands in one style element
//	    that carries the request's nonce.
//	I2  Text of users and events reaches HTML through templ's escaping or textContent alone.
//	I3  Assets are served under an address that holds the hash of all of them, for ever.
package ui
