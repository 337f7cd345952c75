package web

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

const (
	conversationPrefix = "cv_"
	messagePrefix      = "m_"
	uploadPrefix       = "up_"
)

// newID is 128 random bits: knowing one says nothing of another.
func newID(prefix string) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return prefix + idEncoding.EncodeToString(b[:])
}

func randomSecret() string {
	var b [32]byte
	rand.Read(b[:])
	return idEncoding.EncodeToString(b[:])
}

// isID lets nothing but an identifier of ours near a query or a file name.
func isID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && len(rest) == 26 && strings.Trim(rest, idAlphabet) == ""
}
