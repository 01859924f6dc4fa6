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

// placesOf are the places of a word in a text, without regard to case.
func placesOf(text, word string) []int {
	text, word = strings.ToLower(text), strings.ToLower(word)
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
