// Package openai is the one adapter of the agent.Model port that talks to a provider: the Responses API for OpenAI, Chat
// Completions for every server that speaks the same language. No other package imports openai-go.
//
// It owns the shape of a request (transcript, then one user message with the pictures, each after its label), the
// accumulation of a streamed answer, what is known of the model's sight and limits, and the translation of everything a
// provider may answer into agent.ModelError.
//
// It refuses to send a picture to a model that is not known to see, to follow a redirect with one, to keep an answer on
// the provider's side (store is false; previous_response_id is never used), and to guess at what it was not told: a tool
// call's arguments are the model's own words or nothing.
//
// On failure Generate returns an *agent.ModelError, or the context's error when the caller gave up. It tries once: who
// retries is Temporal. Neither sentence of an error quotes a URL, a key or more than a line of what the provider wrote,
// and nothing here logs a prompt, a picture or a key.
//
// What is known of the model's sight, best first:
//
//	operator's word -> live metadata -> observed refusal -> dated table -> unknown
//	                        |                 |
//	                        +--- refuted by --+   (a later refusal drops the metadata until the next Probe)
package openai
