package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"strconv"

	"sightline/connectors/chat"
)

// What Discord takes in one message of a bot in a guild without boosts.
const (
	filesPerMessage = 10
	bytesPerMessage = 10 << 20
	filesPerReply   = 3 * filesPerMessage
)

// inBatches shares files out over messages.
func inBatches(files []chat.ReplyFile) ([][]chat.ReplyFile, error) {
	if err := chat.CheckFiles(files, filesPerReply, bytesPerMessage); err != nil {
		return nil, err
	}
	var out [][]chat.ReplyFile
	var size int64
	for _, f := range files {
		n := len(out) - 1
		if n < 0 || len(out[n]) == filesPerMessage || size+f.Size > bytesPerMessage {
			out, size, n = append(out, nil), 0, n+1
		}
		out[n] = append(out[n], f)
		size += f.Size
	}
	return out, nil
}

// formOf is the message of a piece's files; nil: it has none. It is whole in
// memory: a body that breaks off halfway could not be sent again, and it is
// small.
func (b *Bot) formOf(ctx context.Context, r chat.Reply, n int, p piece) (*form, error) {
	if len(p.files) == 0 {
		return nil, nil
	}
	body := b.message(r, n, "")
	delete(body, "content")
	var list []map[string]any
	for i, f := range p.files {
		list = append(list, map[string]any{"id": strconv.Itoa(i), "filename": oneLine(f.Name, 100)})
	}
	body["attachments"] = list
	head, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var data bytes.Buffer
	w := multipart.NewWriter(&data)
	if err := w.WriteField("payload_json", string(head)); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	for i, f := range p.files {
		part, err := w.CreateFormFile(fmt.Sprintf("files[%d]", i), oneLine(f.Name, 100))
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		if err := f.Copy(ctx, part); err != nil {
			if errors.Is(err, chat.ErrOtherBytes) {
				err = errors.Join(chat.ErrRefused, err)
			}
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return &form{kind: w.FormDataContentType(), data: data.Bytes()}, nil
}
