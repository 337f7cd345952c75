// Package agent makes one inference: it assembles the prompt, rebuilds the
// pictures from their sources, asks the Model, and dispatches the tools that
// the model calls.
//
// It owns the Model port, the tool registry with its first two doors, the
// Looker (authorize, fetch, bound, decode, label) and the text that names
// what is shown and what is not. It keeps nothing: whatever it was given
// dies with the call.
//
//	transcript ─┐
//	selection ──┼─▶ Looker ─▶ pictures + reasons ─▶ request ─▶ audit ─▶ Model
//	inventory ──┘   (one grant, one fetch each)      (pixel-free)
//
// It refuses tools that were not offered to this actor and model, and
// pictures whose authority, bytes or bounds fail; each refusal has a sentence
// for the model and one for the operator. Only an error that leaves the
// question open (the platform or the database can't be reached) fails the
// inference, to be tried again by the workflow.
package agent
