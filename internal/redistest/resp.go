package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Kind bytes of RESP2 and RESP3 frames that this package has to tell apart.
const (
	kindSimple    = '+'
	kindError     = '-'
	kindInteger   = ':'
	kindBulk      = '$'
	kindArray     = '*'
	kindMap       = '%'
	kindSet       = '~'
	kindPush      = '>'
	kindAttribute = '|'
	kindBlobError = '!'
	kindVerbatim  = '='
)

// frame is one RESP value with the bytes that it came in.
type frame struct {
	kind  byte
	text  string  // the value of a scalar, undecoded
	null  bool    // a null bulk string, null array or RESP3 null
	items []frame // elements; a map has keys and values in turn
	raw   []byte
}

// readFrame reads one value. An attribute is returned as part of the value that follows it. An error that is not
// io.EOF at the very start means that the stream is no longer in step and must be given up.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := readLine(r)
	if err != nil {
		return frame{}, err
	}
	if len(line) < 3 {
		return frame{}, fmt.Errorf("redistest: malformed RESP line %q", line)
	}
	f := frame{kind: line[0], text: string(line[1 : len(line)-2]), raw: line}
	switch f.kind {
	case kindBulk, kindVerbatim, kindBlobError:
		return f, f.readBlob(r)
	case kindArray, kindSet, kindPush:
		return f, f.readItems(r, 1)
	case kindMap:
		return f, f.readItems(r, 2)
	case kindAttribute:
		return readAttributed(r, f)
	case '_':
		f.null = true
	}
	return f, nil
}

// readLine reads up to CRLF and keeps it.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil && len(line) > 0 && errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	return line, err
}

func (f *frame) readBlob(r *bufio.Reader) error {
	n, err := strconv.Atoi(f.text)
	if err != nil {
		return fmt.Errorf("redistest: malformed RESP length %q", f.raw)
	}
	if n < 0 {
		f.null, f.text = true, ""
		return nil
	}
	blob := make([]byte, n+2)
	if _, err := io.ReadFull(r, blob); err != nil {
		return fmt.Errorf("redistest: read a RESP blob of %d bytes: %w", n, err)
	}
	f.text, f.raw = string(blob[:n]), append(f.raw, blob...)
	return nil
}

func (f *frame) readItems(r *bufio.Reader, each int) error {
	n, err := strconv.Atoi(f.text)
	if err != nil {
		return fmt.Errorf("redistest: malformed RESP count %q", f.raw)
	}
	f.text = ""
	if n < 0 {
		f.null = true
		return nil
	}
	f.items = make([]frame, 0, n*each)
	for range n * each {
		item, err := readFrame(r)
		if err != nil {
			return fmt.Errorf("redistest: read an element of a RESP aggregate: %w", err)
		}
		f.items, f.raw = append(f.items, item), append(f.raw, item.raw...)
	}
	return nil
}

func readAttributed(r *bufio.Reader, attribute frame) (frame, error) {
	if err := attribute.readItems(r, 2); err != nil {
		return frame{}, err
	}
	f, err := readFrame(r)
	if err != nil {
		return frame{}, fmt.Errorf("redistest: read the value after a RESP attribute: %w", err)
	}
	f.raw = append(attribute.raw, f.raw...)
	return f, nil
}

// texts are the elements as strings; nested aggregates count as "".
func (f *frame) texts() []string {
	out := make([]string, len(f.items))
	for i := range f.items {
		out[i] = f.items[i].text
	}
	return out
}

// encodeCommand is the wire form of a command: an array of bulk strings.
func encodeCommand(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}
