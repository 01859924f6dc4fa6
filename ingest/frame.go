package ingest

import (
	"bytes"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// bom is UTF-8's byte order mark; one at the start of a body is no part of it.
var bom = []byte("\xef\xbb\xbf")

// guess says about how many events a body holds.
func guess(b []byte, f framing, most int) int {
	n := bytes.Count(b, []byte{'\n'})
	if f == oneOrArray {
		n = bytes.Count(b, []byte("},"))
		if n > len(b)/32 { // mostly nested objects
			n = len(b) / 256
		}
	}
	return min(n+1, most)
}

// eachEvent finds the events of a body. event is called with the beginning of each and returns its
// end; in lines it is called with the line alone, and its syntax errors are given to badLine. The
// problem that is returned hurts all of the body (I1).
func eachEvent(b []byte, f framing, most int, event func(b []byte, i, index int, alone bool) (int, *syntaxError),
	badLine func(line []byte, index int, serr *syntaxError),
) error {
	i := skipSpace(b, 0)
	if bytes.HasPrefix(b, bom) {
		i = skipSpace(b, len(bom))
	}
	if i == len(b) {
		return problem.New(400, "empty_body", "the body is empty").WithHint(`send an event, such as {"user":"u1"}`)
	}
	if f == lines {
		return eachLine(b, i, most, event, badLine)
	}
	if b[i] != '[' {
		end, serr := event(b, i, 0, false)
		if serr != nil {
			return notJSON(b, serr)
		}
		return trailing(b, end)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return trailing(b, i+1)
	}
	for index := 0; ; index++ {
		if index >= most {
			return tooManyEvents(most)
		}
		i = skipSpace(b, i)
		end, serr := event(b, i, index, false)
		if serr != nil {
			return notJSON(b, serr)
		}
		if i = skipSpace(b, end); i >= len(b) {
			return notJSON(b, &syntaxError{at: i, eof: true})
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			return trailing(b, i+1)
		default:
			return notJSON(b, &syntaxError{at: i, want: "',' or ']'"})
		}
	}
}

func eachLine(b []byte, i, most int, event func(b []byte, i, index int, alone bool) (int, *syntaxError),
	badLine func(line []byte, index int, serr *syntaxError),
) error {
	var first *syntaxError
	bad, index := 0, 0
	for i < len(b) {
		end := bytes.IndexByte(b[i:], '\n')
		last := end < 0
		if last {
			end = len(b) - i
		}
		line := b[i : i+end]
		start := skipSpace(line, 0)
		if start < len(line) {
			if index >= most {
				return tooManyEvents(most)
			}
			if _, serr := event(line, start, index, true); serr != nil {
				if serr.problem != nil || serr.eof && last {
					serr.at += i
					return notJSON(b, serr)
				}
				badLine(line, index, serr)
				serr.at += i
				first = serr
				bad++
			}
			index++
		}
		i += end + 1
	}
	if index == bad && index == 1 {
		return notJSON(b, first)
	}
	if index == bad {
		return problem.New(400, "bad_json", "none of the %d lines is JSON", index).WithHint(taken)
	}
	return nil
}

func tooManyEvents(most int) error {
	return problem.New(413, "too_large", "the body holds more than %d events", most).WithHint("send them in several requests")
}

// notJSON is the problem of a body that stops being JSON.
func notJSON(b []byte, serr *syntaxError) error {
	if serr.problem != nil {
		return serr.problem
	}
	return problem.New(400, "bad_json", "the body is not JSON: %s", serr.describe(b)).At(serr.at).
		WithHint("nothing of it was taken; mend it and send it again")
}

func trailing(b []byte, end int) error {
	i := skipSpace(b, end)
	if i == len(b) {
		return nil
	}
	return problem.New(400, "bad_json", "the body goes on behind its JSON value: %s at byte %d", showByte(b, i), i).At(i).
		WithHint("for one event a line send Content-Type: application/x-ndjson (with curl use --data-binary, -d joins the lines); nothing of the body was taken")
}

// decode reads all events of a body.
func (d *decoder) decode(b []byte, f framing, most int) error {
	return eachEvent(b, f, most, func(b []byte, i, index int, alone bool) (int, *syntaxError) {
		d.out.total++
		return d.event(b, i, index, alone)
	}, d.badLine)
}

// badLine makes a dead letter of a line that is no JSON.
func (d *decoder) badLine(line []byte, index int, serr *syntaxError) {
	// The place is counted from the beginning of the line, the bytes are kept without space around.
	f := &fault{code: codeBadJSON, reason: "the line is not JSON: " + serr.describe(line)}
	if len(line) > d.maxEvent {
		f.code = codeTooLarge
	}
	d.refuse(index, f, bytes.TrimSpace(line))
}

// timeNames are the fields that a stream's time is looked for in when it is made by its first event.
var timeNames = [...]string{"ts", "timestamp", "time", "event_time", "occurred_at", "created_at"}

// chooseTime returns the first of timeNames that an event carries as a readable time, or "".
func chooseTime(event []byte) string {
	readable := map[string]bool{}
	v := row.NewVector(row.Scalar(row.Timestamp), 1)
	_ = row.EachMember(event, func(name string, value []byte) error {
		if value[0] == '"' || value[0] == '-' || value[0]-'0' <= 9 {
			readable[name] = row.ParseJSONValue(v, value) == nil
		}
		return nil
	})
	for _, name := range timeNames {
		if readable[name] {
			return name
		}
	}
	return ""
}
