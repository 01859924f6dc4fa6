package ui

import "html"

// styleElement is the one place that writes an element by hand: css is made of numbers alone
// (gridCSS), the nonce is ours.
func styleElement(nonce, css string) string {
	return `<style nonce="` + html.EscapeString(nonce) + `">` + css + `</style>`
}
