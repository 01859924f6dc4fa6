package ingest

import (
	"fmt"
	"unicode/utf8"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// A syntaxError is where a text stops being JSON.
type syntaxError struct {
	at   int // byte offset in the body
	want string
	eof  bool // the text ends inside a value
	// problem, when not nil, is what ends the reading of the body in place of bad syntax.
	problem *problem.Problem
}

// describe completes "… is not JSON: ".
func (e *syntaxError) describe(b []byte) string {
	if e.eof {
		return fmt.Sprintf("it ends inside a value, at byte %d", e.at)
	}
	return fmt.Sprintf("%s is expected at byte %d, not %s", e.want, e.at, showByte(b, e.at))
}

func showByte(b []byte, i int) string {
	if i >= len(b) {
		return "the end"
	}
	if r, n := utf8.DecodeRune(b[i:]); r != utf8.RuneError || n > 1 {
		return fmt.Sprintf("%q", r)
	}
	return fmt.Sprintf("byte 0x%02x", b[i])
}

// scanner walks over JSON values as strictly as encoding/json does. What encoding/json takes and
// an event must not have (I2) is not a syntax error: it is noted in flaws.
type scanner struct {
	maxDepth int
	flaws    flaws
	kinds    []uint64 // one bit for each open bracket: 1 is an object
}

// flaws are what makes well-formed JSON unusable.
type flaws uint8

const (
	tooDeep    flaws = 1 << iota
	badUnicode       // a lone surrogate, or bytes that are no UTF-8
	badNumber        // past the largest double
)

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns the end of the value that begins at or after i, depth brackets deep already.
// Brackets are kept as bits, not as calls: a body may be nothing but brackets.
func (s *scanner) value(b []byte, i, depth int) (end int, err *syntaxError) {
	open := 0
	push := func(object bool) {
		if open>>6 == len(s.kinds) {
			s.kinds = append(s.kinds, 0)
		}
		bit := uint64(1) << (open & 63)
		if object {
			s.kinds[open>>6] |= bit
		} else {
			s.kinds[open>>6] &^= bit
		}
		open++
		if open+depth > s.maxDepth {
			s.flaws |= tooDeep
		}
	}
	for {
		if i = skipSpace(b, i); i >= len(b) {
			return 0, &syntaxError{at: i, eof: true}
		}
		switch c := b[i]; c {
		case '{', '[':
			push(c == '{')
			if i = skipSpace(b, i+1); i >= len(b) {
				return 0, &syntaxError{at: i, eof: true}
			}
			if b[i] == c+2 { // '}' or ']'
				open--
				i++
				break
			}
			if c == '{' {
				if i, err = s.member(b, i); err != nil {
					return 0, err
				}
			}
			continue
		case '"':
			i, err = s.text(b, i)
		case 't':
			i, err = literal(b, i, "true")
		case 'f':
			i, err = literal(b, i, "false")
		case 'n':
			i, err = literal(b, i, "null")
		default:
			if c != '-' && (c < '0' || c > '9') {
				return 0, &syntaxError{at: i, want: "a value"}
			}
			i, err = s.number(b, i)
		}
		if err != nil {
			return 0, err
		}
		for more := false; !more; {
			if open == 0 {
				return i, nil
			}
			if i = skipSpace(b, i); i >= len(b) {
				return 0, &syntaxError{at: i, eof: true}
			}
			object := s.kinds[(open-1)>>6]&(1<<((open-1)&63)) != 0
			switch {
			case b[i] == ',' && object:
				if i, err = s.member(b, skipSpace(b, i+1)); err != nil {
					return 0, err
				}
				more = true
			case b[i] == ',':
				i++
				more = true
			case object && b[i] == '}', !object && b[i] == ']':
				i++
				open--
			case object:
				return 0, &syntaxError{at: i, want: "',' or '}'"}
			default:
				return 0, &syntaxError{at: i, want: "',' or ']'"}
			}
		}
	}
}

// member walks over a member's name and colon.
func (s *scanner) member(b []byte, i int) (int, *syntaxError) {
	if i >= len(b) {
		return 0, &syntaxError{at: i, eof: true}
	}
	if b[i] != '"' {
		return 0, &syntaxError{at: i, want: "a member's name in quotes"}
	}
	i, err := s.text(b, i)
	if err != nil {
		return 0, err
	}
	return colon(b, i)
}

func colon(b []byte, i int) (int, *syntaxError) {
	if i = skipSpace(b, i); i >= len(b) {
		return 0, &syntaxError{at: i, eof: true}
	}
	if b[i] != ':' {
		return 0, &syntaxError{at: i, want: "':'"}
	}
	return i + 1, nil
}

func literal(b []byte, i int, word string) (int, *syntaxError) {
	for k := range len(word) {
		if i+k >= len(b) {
			return 0, &syntaxError{at: i + k, eof: true}
		}
		if b[i+k] != word[k] {
			return 0, &syntaxError{at: i + k, want: "the rest of " + word}
		}
	}
	return i + len(word), nil
}

// text walks over a string, from its first quote behind its last.
func (s *scanner) text(b []byte, i int) (int, *syntaxError) {
	from := i + 1
	high := false // a lead surrogate waits for its other half
	ascii := true
	for i = from; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"':
			if high {
				s.flaws |= badUnicode
			}
			if !ascii && !utf8.Valid(b[from:i]) {
				s.flaws |= badUnicode
			}
			return i + 1, nil
		case c == '\\':
			i++
			if i >= len(b) {
				return 0, &syntaxError{at: i, eof: true}
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				unit := 0
				for k := 1; k <= 4; k++ {
					if i+k >= len(b) {
						return 0, &syntaxError{at: i + k, eof: true}
					}
					d := unhex(b[i+k])
					if d < 0 {
						return 0, &syntaxError{at: i + k, want: "a hexadecimal digit"}
					}
					unit = unit<<4 | d
				}
				i += 4
				low := unit >= 0xdc00 && unit <= 0xdfff
				if high != low {
					s.flaws |= badUnicode
				}
				high = unit >= 0xd800 && unit <= 0xdbff
				continue
			default:
				return 0, &syntaxError{at: i, want: `one of "\/bfnrtu`}
			}
		case c < 0x20:
			return 0, &syntaxError{at: i, want: "an escaped control character"}
		case c >= utf8.RuneSelf:
			ascii = false
		}
		if high {
			s.flaws |= badUnicode
			high = false
		}
	}
	return 0, &syntaxError{at: i, eof: true}
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// safeDigits is how many characters a number without exponent may have and never be past the
// largest double.
const safeDigits = 300

// number walks over a number.
func (s *scanner) number(b []byte, i int) (int, *syntaxError) {
	from := i
	if b[i] == '-' {
		i++
	}
	digits := func() *syntaxError {
		if i >= len(b) {
			return &syntaxError{at: i, eof: true}
		}
		if b[i] < '0' || b[i] > '9' {
			return &syntaxError{at: i, want: "a digit"}
		}
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return nil
	}
	if i < len(b) && b[i] == '0' {
		i++ // nothing but a point or an exponent may follow; the caller meets what does
	} else if err := digits(); err != nil {
		return 0, err
	}
	if i < len(b) && b[i] == '.' {
		i++
		if err := digits(); err != nil {
			return 0, err
		}
	}
	exponent := i < len(b) && (b[i] == 'e' || b[i] == 'E')
	if exponent {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if err := digits(); err != nil {
			return 0, err
		}
	}
	if exponent || i-from > safeDigits {
		if _, err := row.ParseJSONFloat(b[from:i]); err != nil {
			s.flaws |= badNumber
		}
	}
	return i, nil
}
