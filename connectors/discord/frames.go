package discord

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
)

// guard reads along what the gateway says, frame by frame, for two things that
// discordgo keeps to itself or does wrong: it does not tell the code of a
// close, and it answers op 9 by identifying at once on the same connection,
// past the platform's pace and over a session that could be resumed. Op 9 is
// kept from it: the connection ends before the frame.
type guard struct {
	net.Conn
	closed  func(code int)
	invalid func(resumable bool)

	head  []byte // of the HTTP answer's end, or of the frame's header, so far
	open  bool   // past the HTTP answer
	left  int    // bytes of the frame's body that are still to come
	small []byte // its body, if that is short
	code  byte   // its opcode
	ended error
}

var errInvalidSession = errors.New("discord said that the session is not valid any more")

// smallFrame is longer than any frame that is looked into.
const smallFrame = 256

func (g *guard) Read(p []byte) (int, error) {
	if g.ended != nil {
		return 0, g.ended
	}
	n, err := g.Conn.Read(p)
	if upTo, over := g.feed(p[:n]); over {
		g.ended = errInvalidSession
		_ = g.Conn.Close()
		if upTo == 0 {
			return 0, g.ended
		}
		return upTo, nil
	}
	return n, err
}

// feed follows the stream. On op 9 it answers where, in these bytes, its frame
// began.
func (g *guard) feed(p []byte) (start int, over bool) {
	for at := 0; at < len(p); {
		switch {
		case !g.open:
			g.head = append(g.head, p[at])
			at++
			if g.open = bytes.HasSuffix(g.head, []byte("\r\n\r\n")); g.open {
				g.head = g.head[:0]
			} else if len(g.head) > 4 {
				g.head = g.head[len(g.head)-4:]
			}
		case g.left == 0:
			if len(g.head) == 0 {
				start = at
			}
			g.head = append(g.head, p[at])
			at++
			if length, whole := frameLength(g.head); whole {
				g.code, g.left, g.small = g.head[0]&0xf, length, g.small[:0]
				g.head = g.head[:0]
				if length == 0 && g.frame() {
					return start, true
				}
			}
		default:
			n := min(g.left, len(p)-at)
			if len(g.small) < smallFrame {
				g.small = append(g.small, p[at:at+min(n, smallFrame-len(g.small))]...)
			}
			at, g.left = at+n, g.left-n
			if g.left == 0 && g.frame() {
				return start, true
			}
		}
	}
	return 0, false
}

// frameLength reads the header of a frame; a server's is not masked.
func frameLength(h []byte) (int, bool) {
	if len(h) < 2 {
		return 0, false
	}
	switch n := int(h[1] & 0x7f); {
	case n < 126:
		return n, true
	case n == 126:
		if len(h) < 4 {
			return 0, false
		}
		return int(binary.BigEndian.Uint16(h[2:])), true
	}
	if len(h) < 10 {
		return 0, false
	}
	return int(binary.BigEndian.Uint64(h[2:]) & (1<<40 - 1)), true
}

const (
	opcodeText  = 1
	opcodeClose = 8
)

// frame looks at a whole frame, and says whether it is op 9.
func (g *guard) frame() bool {
	switch {
	case g.code == opcodeClose && len(g.small) >= 2:
		g.closed(int(binary.BigEndian.Uint16(g.small)))
	case g.code == opcodeText && len(g.small) < smallFrame && bytes.Contains(g.small, []byte(`"op"`)):
		var f struct {
			Op   int             `json:"op"`
			Data json.RawMessage `json:"d"`
		}
		if json.Unmarshal(g.small, &f) == nil && f.Op == 9 {
			g.invalid(string(f.Data) == "true")
			return true
		}
	}
	return false
}
