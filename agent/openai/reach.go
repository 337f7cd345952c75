package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The ways in which a server can't be asked. Who tests for them says what to do.
var (
	ErrUnreachable = errors.New("the model's server can't be reached")
	ErrKey         = errors.New("the model's server refuses the key")
	ErrServer      = errors.New("the model's server has an error of its own")
)

// Reach asks the server for its list of models, with the key, and answers why it can't be asked; nil: it answers. Not every
// server has such a list, so that there is none is no failure, and said in words. It costs no tokens.
func (m *Model) Reach(ctx context.Context) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.JoinPath("models").String(), nil)
	if err != nil {
		return "", fmt.Errorf("openai: make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if m.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+m.cfg.APIKey)
	}
	res, err := m.cfg.HTTPClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrUnreachable, networkCause(err)) // the cause alone: the URL may hold a secret
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		// A key that may do no more than ask the model is refused a list of models, in these words.
		if b, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)); err == nil && strings.Contains(strings.ToLower(string(b)), "scope") {
			return "answers; the key may not list its models", nil
		}
		return "", fmt.Errorf("%w (401)", ErrKey)
	case res.StatusCode >= 500:
		return "", fmt.Errorf("%w (%d)", ErrServer, res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return fmt.Sprintf("answers %d where its list of models is looked for; should every request fail, see where the base URL has to end (often in /v1)", res.StatusCode), nil
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata))
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrUnreachable, networkCause(err))
	}
	return "answers" + unlisted(b, m.cfg.Model), nil
}

// unlisted says that a list of models lacks one. A gateway may serve what it does not list, so that is a hint and no more.
func unlisted(list []byte, model string) string {
	var l struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(list, &l) != nil || len(l.Data) == 0 {
		return ""
	}
	base, _, _ := strings.Cut(model, ":") // OpenRouter's suffixes; Ollama's name alone is its :latest
	for _, m := range l.Data {
		if m.ID == model || m.ID == base || m.ID == model+":latest" {
			return ""
		}
	}
	return fmt.Sprintf("; %s is not in its list of models", model)
}
