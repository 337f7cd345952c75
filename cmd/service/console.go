package service

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"sightline/connectors/web"
	"sightline/workflows"
)

// shownConversations is how many the console's first page lists.
const shownConversations = 100

var _ web.Console = (*inspector)(nil)

// Overview lists the agent's conversations.
func (i *inspector) Overview(ctx context.Context) (web.Report, error) {
	rows, err := i.db.RecentConversations(ctx, i.agent, shownConversations)
	if err != nil {
		return web.Report{}, err
	}
	return overview(rows), nil
}

// Inspect is what `sightline inspect` tells, for the console.
func (i *inspector) Inspect(ctx context.Context, kind, id string) (web.Report, error) {
	v, err := i.look(ctx, kind, id)
	if err != nil {
		return web.Report{}, err
	}
	return v.report(), nil
}

// asks lets the console tell where a workflow is at this moment. A worker
// answers; without one, or in a hurry, the page does without.
func asks(tc client.Client) func(context.Context, string) string {
	return func(ctx context.Context, id string) string {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		v, err := tc.QueryWorkflow(ctx, id, "", workflows.QueryState)
		if err != nil {
			return ""
		}
		if ids["turn"].MatchString(id) {
			var p workflows.TurnProgress
			if v.Get(&p) != nil {
				return ""
			}
			return fmt.Sprintf("%s: %s, step %d, %d messages joined, %d attachments", p.State, p.Doing, p.Step, len(p.Joined), p.Attachments)
		}
		var s workflows.ConversationState
		if v.Get(&s) != nil {
			return ""
		}
		out := fmt.Sprintf("%s, %d queued, %d messages remembered, %d turns in this run", s.State, len(s.Queue), s.Seen, s.Turns)
		if s.Running != "" {
			out += ", turn " + string(s.Running)
		}
		return out
	}
}
