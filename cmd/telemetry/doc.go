// Package telemetry counts and traces what the service does: metrics for a
// Prometheus to scrape, and OpenTelemetry traces of each turn from the
// platform's event to the post.
//
//	event ─▶ SignalWithStart ─▶ Conversation ─▶ Turn ─▶ Infer ─▶ model call
//	  (one trace, its ID follows from the turn's)    ├─▶ Tool
//	                                                 └─▶ post
//
// It wraps the ports of the other packages, which know nothing of it. Labels
// are states, kinds, rules, platforms and names of configured models; each has
// a bounded number of values, and what comes beyond is counted as "other".
//
// It refuses names, texts, pixels and IDs of people: metrics have no
// identifiers at all; spans have those of workflows, runs and activities.
// Errors in spans are reduced to their kind, for their texts may quote.
//
// On failure nothing else fails: a span that can't be exported is dropped and
// the exporter's complaint is in the log. Without an OTLP endpoint no span is
// made.
package telemetry
