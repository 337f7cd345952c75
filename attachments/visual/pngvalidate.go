package visual

import (
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

var (
	errPNGData   = errors.New("not enough pixel data")
	errPNGExcess = errors.New("too much pixel data")
	errPNGFilter = errors.New("bad filter type")
	errPNGSum    = errors.New("invalid checksum")
)

// validatePNG accepts exactly what image/png accepts of pngCritical(b), without an image: it inflates row by row and
// checks the filter bytes, sums and lengths. It does not even unfilter, since no pixel value is an error to image/png
// (an index beyond the palette extends the palette). Its header was accepted.
func validatePNG(s *stop, b []byte, h Header) error {
	d := &pngData{walk: walkPNG(b), stop: s}
	if !d.first() {
		return errPNGData
	}
	// zlib wraps a reader without ReadByte in a bufio.Reader, here as in image/png: how much it reads ahead decides
	// which trailing bytes of an IDAT are accepted.
	z, err := zlib.NewReader(d)
	if err != nil {
		return err
	}
	defer z.Close()
	bits := int64(pngBits(d.color, byte(h.BitDepth)))
	row := make([]byte, 1+(bits*int64(h.Width)+7)/8)
	if !h.interlaced {
		err = readRows(z, row, h.Height)
	} else {
		for _, p := range adam7 {
			w, rows := (h.Width-p.x+p.dx-1)/p.dx, (h.Height-p.y+p.dy-1)/p.dy
			if w == 0 || rows == 0 {
				continue
			}
			if err = readRows(z, row[:1+(bits*int64(w)+7)/8], rows); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	// The end of the stream carries its sum; a reader may return nothing for a while before it.
	n := 0
	for i := 0; n == 0 && err == nil; i++ {
		if i == 100 {
			return io.ErrNoProgress
		}
		n, err = z.Read(row[:1])
	}
	if err != nil && err != io.EOF {
		return err
	}
	if n != 0 || len(d.left) != 0 {
		return errPNGExcess
	}
	return d.finish()
}

// adam7 places the passes of an interlaced PNG.
var adam7 = [7]struct{ dx, dy, x, y int }{
	{8, 8, 0, 0}, {8, 8, 4, 0}, {4, 8, 0, 4}, {4, 4, 2, 0}, {2, 4, 0, 2}, {2, 2, 1, 0}, {1, 2, 0, 1},
}

func readRows(z io.Reader, row []byte, rows int) error {
	for ; rows > 0; rows-- {
		if _, err := io.ReadFull(z, row); err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return errPNGData
			}
			return err
		}
		if row[0] > 4 {
			return errPNGFilter
		}
	}
	return nil
}

// pngData presents the contents of consecutive IDAT chunks as one stream, as image/png does: a chunk's sum is checked
// when the stream goes on past it.
type pngData struct {
	walk  *pngWalk
	stop  *stop
	color byte
	left  []byte // of the current chunk
	crc   uint32
	want  uint32
}

// first goes to the first IDAT.
func (d *pngData) first() bool {
	for c, ok := d.walk.next(); ok; c, ok = d.walk.next() {
		switch c.kind {
		case "IHDR":
			d.color = c.data[9]
		case "IDAT":
			d.enter(c)
			return true
		}
	}
	return false
}

func (d *pngData) enter(c pngChunk) {
	d.left = c.data
	d.crc = crc32.ChecksumIEEE(c.raw[4:8])
	d.want = binary.BigEndian.Uint32(c.raw[len(c.raw)-4:])
}

func (d *pngData) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := d.stop.check(); err != nil {
		return 0, err
	}
	for len(d.left) == 0 {
		if d.crc != d.want {
			return 0, errPNGSum
		}
		c, ok := d.walk.next()
		for ok && !c.critical() {
			c, ok = d.walk.next()
		}
		if !ok {
			return 0, io.ErrUnexpectedEOF
		}
		if c.kind != "IDAT" {
			return 0, errPNGData
		}
		d.enter(c)
	}
	n := copy(p, d.left)
	d.crc = crc32.Update(d.crc, crc32.IEEETable, p[:n])
	d.left = d.left[n:]
	return n, nil
}

// finish checks the sums of the current chunk and of the data chunks after the stream, whose contents are ignored.
func (d *pngData) finish() error {
	if d.crc != d.want {
		return errPNGSum
	}
	for c, ok := d.walk.next(); ok; c, ok = d.walk.next() {
		if c.kind == "IDAT" && !c.sumOK() {
			return errPNGSum
		}
	}
	return nil
}
