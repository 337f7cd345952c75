// Package attachments decides who may use which attachment, and moves bytes
// only under that decision.
//
// It owns the Grant, the one Authorizer that mints it, the inventory listing
// and the uniform refusal. Anything in this package could mint a Grant, so it
// is kept to a few files and imports only connectors/chat.
//
//	Request ──Authorize──▶ Grant ──Fetch──▶ Content
//	             │           │ bound to one attachment, one activity's
//	             ▼           │ context and an expiry; never serialized
//	   row of this agent     ▼
//	   and conversation?   Source re-reads the message on the platform and
//	   state available?    downloads what it points to now, capped
//	   Visibility allows?
//
// It refuses everything that it cannot establish. Missing and forbidden give
// the same ErrNotAvailable; a row of this very conversation whose audience
// holds may say why its bytes can't be had (StateError). Every decision,
// allowed or refused, is recorded as a chat.Use; if it can't be recorded, the
// decision is a refusal.
package attachments
