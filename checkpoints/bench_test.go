package checkpoints

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sightline/connectors/chat"
)

func BenchmarkRecord(b *testing.B) {
	db := open(b)
	i := 0
	for b.Loop() {
		i++
		if _, err := db.Record(b.Context(), posted(room, fmt.Sprint(i), "hello", png("a"), png("b"))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecordAgain(b *testing.B) {
	db := open(b)
	e := posted(room, "1", "hello", png("a"), png("b"))
	for b.Loop() {
		if _, err := db.Record(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendStep(b *testing.B) {
	for _, size := range []int{200, 20_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			db := open(b)
			turn := begun(b, db, "1")
			body := json.RawMessage(`"` + strings.Repeat("some words ", size/11) + `"`)
			i := 0
			for b.Loop() {
				i++
				if _, _, err := db.AppendStep(b.Context(), Step{Turn: turn.ID, Seq: i, Kind: StepAssistant, Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHistory(b *testing.B) {
	db, ctx := open(b), b.Context()
	for i := range 60 {
		turn := begun(b, db, fmt.Sprint(i))
		must2[Step](b)(db.AppendStep(ctx, Step{Turn: turn.ID, Kind: StepUser, Message: turn.Message}))
		if err := db.FinishTurn(ctx, turn.ID, TurnAnswered, ""); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, _, err := db.History(ctx, "main", room.Conversation(), chat.TurnID(""), 40); err != nil {
			b.Fatal(err)
		}
	}
}
