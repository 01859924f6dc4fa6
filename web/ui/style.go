package ui

import (
	"bytes"
	"html"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// styleElement is the one place that writes an element by hand: css is made of numbers alone
// (gridCSS), the nonce is ours.
func styleElement(nonce, css string) string {
	return `<style nonce="` + html.EscapeString(nonce) + `">` + css + `</style>`
}

// markdown renders text panels. Raw HTML is left out and addresses of scripts are emptied: that is
// goldmark's way unless one asks for more.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))

// Markdown is a text as safe HTML.
func Markdown(text string) string {
	var b bytes.Buffer
	if err := markdown.Convert([]byte(text), &b); err != nil {
		return html.EscapeString(text)
	}
	return b.String()
}
