package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
)

// socket posts bodies over one connection with as little work as there can be, so that a load
// generator on the same machine takes little of what the server is measured with. It reads of an
// answer what it must: the status, how long the body is, and the body when it is an error.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	head []byte // up to the length of the body
	out  []byte
}

func dialSocket(addr, path, contentType string) (*socket, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: ", path, addr, contentType)
	return &socket{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), head: head}, nil
}

func (s *socket) close() { _ = s.conn.Close() }

// post sends one request and returns when it was answered with 200.
func (s *socket) post(body []byte) error {
	s.out = strconv.AppendInt(append(s.out[:0], s.head...), int64(len(body)), 10)
	s.out = append(append(s.out, "\r\n\r\n"...), body...)
	if _, err := s.conn.Write(s.out); err != nil {
		return err
	}
	return s.answer()
}

var (
	goodLine      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length: ")
)

func (s *socket) answer() error {
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	good, status := bytes.HasPrefix(line, goodLine), ""
	if !good {
		status = string(bytes.TrimSpace(line))
	}
	length := -1
	for {
		line, err := s.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if digits, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(digits))); err != nil {
				return err
			}
		}
	}
	switch {
	case length < 0:
		return fmt.Errorf("the server's answer %s has no length", status)
	case good:
		_, err = s.in.Discard(length)
		return err
	}
	text := make([]byte, min(length, 300))
	n, _ := io.ReadFull(s.in, text)
	return fmt.Errorf("the server answered %s: %s", status, text[:n])
}
