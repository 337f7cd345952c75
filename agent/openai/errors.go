package openai

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sightline/agent"
)

// unsendable is a request that could not even be put together.
type unsendable struct{ err error }

func (e *unsendable) Error() string { return e.err.Error() }

// empty is an answer with neither text nor calls.
type empty struct{ finish string }

func (e *empty) Error() string { return "the answer is empty" }

// optional are the parameters that may be left out for a server that does not know them. What keeps an answer private
// (store) is not among them.
var optional = []string{"include", "stream_options"}

// translate is the one place where an agent.ModelError is made of a failure.
func (m *Model) translate(err error, at position) error {
	var (
		refused *refusal
		said    *providerError
		blank   *empty
		unfit   *unsendable
	)
	switch {
	case errors.As(err, &refused):
		return m.translateProvider(parseError(refused.status, refused.header, refused.body), at)
	case errors.As(err, &said):
		return m.translateProvider(said, at)
	case errors.As(err, &blank):
		if blank.finish == "content_filter" {
			return modelError(agent.ErrContentGuard, true, "The model's provider withheld the answer.", "finish content_filter without an answer")
		}
		return modelError(agent.ErrEmptyAnswer, false, "The model gave an empty answer.", "neither text nor calls, finish "+token(blank.finish, m.cfg.APIKey))
	case errors.As(err, &unfit):
		return modelError(agent.ErrBadRequest, true, "The request to the model could not be put together.", token(unfit.Error(), m.cfg.APIKey))
	case errors.Is(err, errHTML):
		return modelError(agent.ErrBadRequest, true, "The model's address answers with a web page.",
			"a web page came instead of an answer: is the base URL the API's (it often ends in /v1)?")
	case errors.Is(err, errNoAI):
		return modelError(agent.ErrUnavailable, false, "The model's server gave an answer that is none.", "the body is neither a stream nor a JSON answer")
	case errors.Is(err, errCut), errors.Is(err, errIdle), errors.Is(err, errTimeout), errors.Is(err, errTooLarge):
		return modelError(agent.ErrUnavailable, false, "The model's answer broke off.", err.Error())
	}
	// Network errors quote the URL; what kind it was is all that is told.
	return modelError(agent.ErrUnavailable, false, "The model can't be reached right now.", "connection failed: "+networkCause(err))
}

func modelError(kind agent.ErrorKind, permanent bool, person, operator string) *agent.ModelError {
	return &agent.ModelError{Kind: kind, Permanent: permanent, Picture: -1, Person: person, Operator: operator}
}

func (m *Model) translateProvider(e *providerError, at position) error {
	kind, permanent, picture := classify(e, at)
	out := modelError(kind, permanent, person(kind, permanent, e), m.operator(e))
	out.Picture = picture
	if !permanent {
		out.RetryAfter = e.retryAfter
	}
	if kind == agent.ErrNoVision {
		m.known.refused(statusText(e), time.Now())
	}
	if kind == agent.ErrBadRequest && (e.status == 400 || e.status == 422) {
		for _, name := range optional {
			if (e.param == name || strings.Contains(e.message, name) || (name == "include" && strings.Contains(strings.ToLower(e.message), "encrypted content is not supported"))) && m.known.drop(name) {
				out.Permanent = false // the next try goes without it
				out.Operator += "; asking without " + name + " from now on"
			}
		}
	}
	return out
}

func (m *Model) operator(e *providerError) string {
	key := m.cfg.APIKey
	parts := []string{statusText(e)}
	for _, f := range []struct{ name, value string }{{"code", e.code}, {"type", e.typ}, {"param", e.param}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+token(f.value, key))
		}
	}
	switch {
	case e.html:
		parts = append(parts, "the body is a web page")
	case e.nothing:
		parts = append(parts, "the body holds no error in a known form")
	case e.message != "":
		parts = append(parts, "provider says: "+oneLine(e.message, key))
	}
	if e.status == 404 {
		parts = append(parts, fmt.Sprintf("is %q a model of this server, and the base URL its API's?", token(m.cfg.Model, key)))
	}
	return strings.Join(parts, ", ")
}

func statusText(e *providerError) string {
	if e.status == 0 {
		return "error within the stream"
	}
	return fmt.Sprintf("status %d", e.status)
}

// person is the sentence for whoever asked: what it means for them, nothing of the provider.
func person(kind agent.ErrorKind, permanent bool, e *providerError) string {
	switch kind {
	case agent.ErrNoVision:
		return "The model in use does not see pictures."
	case agent.ErrBadPicture:
		return "The model did not accept a picture."
	case agent.ErrTooLong:
		return "This conversation has become too long for the model."
	case agent.ErrContentGuard:
		return "The model's provider declined this request."
	case agent.ErrAuth:
		return "The model refused this agent's credentials; its operator has to look."
	case agent.ErrRateLimited:
		if permanent {
			return "The model's account has no quota left; its operator has to look."
		}
		return "The model is busy right now."
	case agent.ErrUnavailable:
		return "The model can't be reached right now."
	}
	if e.status == 404 {
		return "The configured model was not found; its operator has to look."
	}
	return "The model did not accept this request."
}
