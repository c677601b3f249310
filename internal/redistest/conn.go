package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// ioTimeout bounds each exchange of a test with its server, so that a server that was stopped and forgotten fails the
// test with a reason instead of hanging it.
const ioTimeout = 20 * time.Second

// Conn is a bare connection: RESP2, one command at a time, nothing sent that the caller did not ask for, apart from AUTH
// where the server has a password. It is for one goroutine.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
}

// dial connects and, where there is a password, authenticates.
func dial(ctx context.Context, addr string, tlsConfig *tls.Config, password string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("redistest: connect to the server: %w", err)
	}
	if tlsConfig != nil {
		conn = tls.Client(conn, tlsConfig)
	}
	c := &Conn{conn: conn, r: bufio.NewReader(conn)}
	if password != "" {
		if _, err := c.Do("AUTH", password); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Do sends one command and returns its answer; an error reply is a ReplyError. Both together may take 20 s.
func (c *Conn) Do(args ...string) (Reply, error) {
	if err := c.conn.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return Reply{}, fmt.Errorf("redistest: %s: %w", args[0], err)
	}
	if err := c.send(args...); err != nil {
		return Reply{}, err
	}
	return c.receive(args[0])
}

func (c *Conn) send(args ...string) error {
	if _, err := c.conn.Write(encodeCommand(args)); err != nil {
		return fmt.Errorf("redistest: send %s: %w", args[0], err)
	}
	return nil
}

// receive reads one value, whatever caused it; what names it in errors.
func (c *Conn) receive(what string) (Reply, error) {
	f, err := readFrame(c.r)
	if err != nil {
		return Reply{}, fmt.Errorf("redistest: await the reply to %s: %w", what, err)
	}
	if f.kind == kindError || f.kind == kindBlobError {
		return Reply{}, ReplyError(f.text)
	}
	return Reply{f}, nil
}

// unbounded lifts the deadline of the last Do, for a connection that from now on only listens.
func (c *Conn) unbounded() error {
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("redistest: lift the connection's deadline: %w", err)
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }
