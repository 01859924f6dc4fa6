//go:build cgo

package history

import (
	"strings"
	"unicode/utf8"
)

// DuckDB's errors are texts such as
//
//	Binder Error: Referenced column "b" not found in FROM clause!
//	Candidate bindings: "t.a"
//	LINE 2: SELECT b FROM t
//	               ^
//
// The excerpt of a long line is cut, with "..." where text is missing.

// cutLine splits a message from its excerpt; ok is false when there is none.
func cutLine(message string) (plain, excerpt string, caret, line int, ok bool) {
	at := strings.LastIndex(message, "\nLINE ")
	if at < 0 {
		return message, "", 0, 0, false
	}
	plain = message[:at]
	lines := strings.SplitN(message[at+1:], "\n", 3)
	head, excerpt, found := strings.Cut(lines[0], ": ")
	if !found || len(lines) < 2 {
		return plain, "", 0, 0, false
	}
	for _, c := range strings.TrimPrefix(head, "LINE ") {
		if c < '0' || c > '9' {
			return plain, "", 0, 0, false
		}
		line = line*10 + int(c-'0')
	}
	caret = strings.IndexByte(lines[1], '^') - len(head) - 2
	if caret < 0 {
		return plain, "", 0, 0, false
	}
	return plain, excerpt, caret, line, true
}

// plainMessage is DuckDB's message on one line, without the excerpt.
func plainMessage(message string) string {
	plain, _, _, _, _ := cutLine(message)
	return strings.Join(strings.Fields(plain), " ")
}

// placeIn finds the byte offset in text that a message's excerpt points at, or −1.
func placeIn(text, message string) int {
	_, excerpt, caret, line, ok := cutLine(message)
	if !ok {
		return -1
	}
	start := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[start:], '\n')
		if n < 0 {
			return -1
		}
		start += n + 1
	}
	whole, _, _ := strings.Cut(text[start:], "\n")
	if cut, ok := strings.CutPrefix(excerpt, "..."); ok {
		excerpt, caret = cut, caret-3
	}
	excerpt = strings.TrimSuffix(excerpt, "...")
	at := strings.Index(whole, excerpt)
	if at < 0 || caret < 0 {
		return -1
	}
	// The caret counts characters.
	for i := range excerpt {
		if caret == 0 {
			return start + at + i
		}
		caret--
	}
	if caret == 0 {
		return start + at + len(excerpt)
	}
	return -1
}

// tokenAt is the word, or the single character, of a SQL text at a place.
func tokenAt(text string, at int) string {
	if at < 0 || at >= len(text) {
		return ""
	}
	if text[at] == '"' {
		if n := strings.IndexByte(text[at+1:], '"'); n >= 0 {
			return text[at+1 : at+1+n]
		}
	}
	end := at
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if end == at {
		_, n := utf8.DecodeRuneInString(text[at:])
		end += n
	}
	return text[at:end]
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// placesOf are the places of a word in a text, without regard to case, strings and comments left out.
func placesOf(text, word string) []int {
	text, word = asciiLower(withoutStrings(text)), asciiLower(word)
	var places []int
	for from := 0; word != ""; {
		n := strings.Index(text[from:], word)
		if n < 0 {
			break
		}
		at := from + n
		end := at + len(word)
		if !isWord(word[0]) || (at == 0 || !isWord(text[at-1])) && (end == len(text) || !isWord(text[end])) {
			places = append(places, at)
		}
		from = end
	}
	return places
}

// translate turns a place in a text that was written anew into one of the text it came from: the
// same occurrence of the same word, or the word's first one, or −1.
func translate(ran string, at int, source string) int {
	if ran == source || at < 0 {
		return at
	}
	word := tokenAt(ran, at)
	there := placesOf(source, word)
	if len(there) == 0 {
		return -1
	}
	here := placesOf(ran, word)
	for i, p := range here {
		if (p == at || p == at+1) && len(here) == len(there) {
			return there[i]
		}
	}
	return there[0]
}

// asciiLower folds letters whose cases have the same length, so that places stay.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// withoutStrings blanks out the strings and comments of a SQL text; what is left keeps its place.
func withoutStrings(text string) string {
	b := []byte(text)
	eachPart(text, func(from, to int, code bool) {
		if !code && text[from] != '"' {
			for i := from; i < to; i++ {
				b[i] = ' '
			}
		}
	})
	return string(b)
}

// eachPart calls f for the parts of a SQL text: code, and each string, quoted name and comment.
func eachPart(text string, f func(from, to int, code bool)) {
	start := 0
	for i := 0; i < len(text); {
		end := i
		switch {
		case text[i] == '\'' || text[i] == '"':
			end = i + 1
			for end < len(text) {
				if text[end] != text[i] {
					end++
				} else if end+1 < len(text) && text[end+1] == text[i] {
					end += 2
				} else {
					break
				}
			}
			end = min(end+1, len(text))
		case strings.HasPrefix(text[i:], "--"):
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				end = i + n
			} else {
				end = len(text)
			}
		case strings.HasPrefix(text[i:], "/*"):
			if n := strings.Index(text[i+2:], "*/"); n >= 0 {
				end = i + n + 4
			} else {
				end = len(text)
			}
		default:
			i++
			continue
		}
		if start < i {
			f(start, i, true)
		}
		f(i, end, false)
		i, start = end, end
	}
	if start < len(text) {
		f(start, len(text), true)
	}
}

// onLines breaks a text into lines at its blanks, strings and names left alone. DuckDB's errors
// show the line they mean, and in a short line the place is right; in a long one it may not be.
func onLines(text string) string {
	b := []byte(text)
	eachPart(text, func(from, to int, code bool) {
		if !code {
			if text[from] == '-' || text[from] == '/' {
				b = nil // a comment would end at its first blank
			}
			return
		}
		for i := from; i < to && b != nil; i++ {
			if text[i] == ' ' {
				b[i] = '\n'
			}
		}
	})
	if b == nil {
		return text
	}
	return string(b)
}
