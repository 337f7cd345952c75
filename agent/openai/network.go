package openai

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// networkCause names a connection's failure without its address.
func networkCause(err error) string {
	var (
		dns       *net.DNSError
		unknownCA x509.UnknownAuthorityError
		wrongHost x509.HostnameError
		badCert   *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		timeout   net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "the host name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the connection ended in the middle"
	case errors.As(err, &unknownCA), errors.As(err, &wrongHost), errors.As(err, &badCert):
		return "its certificate is not trusted"
	case errors.As(err, &record):
		return "it does not speak TLS"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it took too long"
	}
	return "network error"
}
