package visual

import (
	"bytes"
	"encoding/binary"
)

// exifPrefix begins EXIF in a JPEG segment, and by mistake in many WebP chunks, where common readers then miss it.
var exifPrefix = []byte("Exif\x00\x00")

// exifOrientation finds the orientation in an EXIF block, with or without the prefix. It returns 1, upright, for
// whatever is absent or malformed: orientation is advice, and a picture without it is shown as it is stored.
func exifOrientation(b []byte) int {
	const (
		tagOrientation = 0x0112
		typeShort      = 3
		typeLong       = 4
	)
	b = bytes.TrimPrefix(b, exifPrefix)
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(b[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 1
	}
	entries := b[at+2:]
	for n := order.Uint16(b[at:]); n > 0 && len(entries) >= 12; n, entries = n-1, entries[12:] {
		if order.Uint16(entries) != tagOrientation {
			continue
		}
		v := uint32(0)
		switch order.Uint16(entries[2:]) {
		case typeShort:
			v = uint32(order.Uint16(entries[8:]))
		case typeLong:
			v = order.Uint32(entries[8:])
		}
		if 1 <= v && v <= 8 {
			return int(v)
		}
		return 1
	}
	return 1
}
