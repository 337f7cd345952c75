package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Draft names the message that shows an answer while it is made.
type Draft struct {
	// NativeID is empty where it was lost: the message may be out all the same.
	NativeID string
	// First are the words that it was begun with. They help to find it.
	First string
}

// ReplyFile is a file that goes with a reply. It is shown only if its bytes
// are those that Size and SHA256 (hex) say.
type ReplyFile struct {
	Name   string
	Size   int64
	SHA256 string
	Open   func(ctx context.Context) (io.ReadCloser, error)
}

// ErrOtherBytes is a ReplyFile that is not what it was said to be.
var ErrOtherBytes = errors.New("the file's bytes are not those that were promised")

// Copy writes the file to w. On an error what was written is not to be shown.
func (f ReplyFile) Copy(ctx context.Context, w io.Writer) error {
	if f.Open == nil {
		return fmt.Errorf("open the reply's file: %w", ErrOtherBytes)
	}
	r, err := f.Open(ctx)
	if err != nil {
		return fmt.Errorf("open the reply's file: %w", err)
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, f.Size+1))
	switch {
	case err != nil:
		return fmt.Errorf("copy the reply's file: %w", err)
	case n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return ErrOtherBytes
	}
	return nil
}

// CheckFiles refuses for good what a platform would not take: more than count
// files, or one that is empty or over max bytes.
func CheckFiles(files []ReplyFile, count int, max int64) error {
	if len(files) > count {
		return fmt.Errorf("%d files are more than the %d of one reply: %w", len(files), count, ErrRefused)
	}
	for _, f := range files {
		switch {
		case f.Name == "" || f.Open == nil:
			return fmt.Errorf("a file has no name or no bytes: %w", ErrRefused)
		case f.Size < 1 || f.Size > max:
			return fmt.Errorf("a file has %d bytes; it can have 1 to %d here: %w", f.Size, max, ErrRefused)
		}
	}
	return nil
}
