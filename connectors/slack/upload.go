package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sightline/connectors/chat"
)

const (
	filesPerReply = 10
	bytesPerFile  = 100 << 20 // Slack takes more; a reply has no use for it
	uploadTimeout = 5 * time.Minute
)

var uploads = plainClient(uploadTimeout)

type uploaded struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

func (b *Bot) uploadAll(ctx context.Context, files []chat.ReplyFile) (list []uploaded, err error) {
	for _, f := range files {
		id, err := b.upload(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("slack: upload a reply's file: %w", denied(err))
		}
		list = append(list, uploaded{ID: id, Title: f.Name})
	}
	return list, nil
}

// share puts a reply's files below its words, all in one message. A share
// carries no mark: whether an earlier try made it, name and size tell.
func (b *Bot) share(ctx context.Context, self identity, r chat.Reply, missing []chat.ReplyFile, list []uploaded) error {
	if len(list) == 0 {
		return nil
	}
	names, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("slack: share files: %w", err)
	}
	in := url.Values{"files": {string(names)}, "channel_id": {b.facts.present(r.Place.Channel)}}
	if r.Place.Thread != "" {
		in.Set("thread_ts", r.Place.Thread)
	}
	b.posts.share(r.Key, list)
	pause := b.api.pause
	for try := 1; ; try++ {
		_, err := b.api.retry(ctx, b.api.token, "files.completeUploadExternal", in, nil, false)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !unsure(err) || try == maxTries {
			return fmt.Errorf("slack: share files: %w", denied(err))
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
		again, lerr := b.already(ctx, self, r)
		if lerr != nil {
			return errors.Join(err, lerr)
		}
		if len(without(missing, again.files)) == 0 {
			return nil
		}
	}
}

// without are the files that are not among those shared.
func without(files []chat.ReplyFile, shared []file) (out []chat.ReplyFile) {
	type look struct {
		name string
		size int64
	}
	have := map[look]int{}
	for _, f := range shared {
		name := f.Title
		if name == "" {
			name = f.Name
		}
		have[look{name, f.Size}]++
	}
	for _, f := range files {
		l := look{f.Name, f.Size}
		if have[l] > 0 {
			have[l]--
			continue
		}
		out = append(out, f)
	}
	return out
}

// denied: a scope that the app lacks is nothing that a later try finds.
func denied(err error) error {
	switch codeOf(err) {
	case "missing_scope", "not_allowed_token_type", "file_upload_size_restricted", "file_uploads_disabled",
		"file_uploads_except_images_disabled", "file_type_not_allowed", "storage_limit_reached", "posting_to_channel_denied":
		return errors.Join(chat.ErrRefused, err)
	}
	if errors.Is(err, chat.ErrOtherBytes) {
		return errors.Join(chat.ErrRefused, err)
	}
	return err
}

// upload takes the first two of Slack's three steps: nobody sees the file yet.
func (b *Bot) upload(ctx context.Context, f chat.ReplyFile) (string, error) {
	var a struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	if _, err := b.api.call(ctx, "files.getUploadURLExternal", url.Values{
		"filename": {f.Name}, "length": {strconv.FormatInt(f.Size, 10)},
	}, &a); err != nil {
		return "", err
	}
	u, err := url.Parse(a.URL)
	if err != nil || a.ID == "" || !b.hosts.file(u) {
		return "", errors.New("slack: the place to upload to is not on a host of Slack's")
	}
	// The bytes go straight through; what turns out to be another file is never
	// completed, so never shown.
	r, w := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		err := f.Copy(ctx, w)
		_ = w.CloseWithError(err) // documented to return nil
		copied <- err
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), r)
	if err != nil {
		_ = r.Close() // ends the copy
		<-copied
		return "", errors.New("slack: the upload could not be asked for")
	}
	req.ContentLength = f.Size
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := uploads.Do(req)
	_ = r.Close() // ends a copy that nobody reads
	if cerr := <-copied; cerr != nil && !errors.Is(cerr, io.ErrClosedPipe) {
		if err == nil {
			res.Body.Close()
		}
		return "", cerr
	}
	if err != nil {
		return "", fmt.Errorf("slack: upload: %w", bare(err))
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is kept
	if res.StatusCode != http.StatusOK {
		return "", &apiError{Method: "upload", Code: "http_" + strconv.Itoa(res.StatusCode)}
	}
	return a.ID, nil
}
