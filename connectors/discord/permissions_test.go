package discord

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestUniversalHistoryHolds compares the rule with every member there could
// be: all sets of roles, each with and without an overwrite of its own.
func TestUniversalHistoryHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	yes, no := 0, 0
	pick := func(bits ...permissions) (p permissions) {
		for _, b := range bits {
			if r.IntN(3) == 0 {
				p |= b
			}
		}
		return p
	}
	for range 20_000 {
		g := guild{ID: "1", Roles: []role{{ID: "1", Permissions: pick(permView, permView, permReadHistory, permReadHistory)}}}
		for i := range r.IntN(5) {
			p := pick(permView, permReadHistory)
			if r.IntN(10) == 0 {
				p |= permAdministrator
			}
			g.Roles = append(g.Roles, role{ID: fmt.Sprint(10 + i), Permissions: p})
		}
		var list []overwrite
		for i, role := range g.Roles {
			if r.IntN(3) == 0 {
				list = append(list, overwrite{ID: role.ID, Allow: pick(permView, permReadHistory), Deny: pick(permView, permReadHistory)})
			}
			if i == 0 && r.IntN(3) == 0 {
				list = append(list, overwrite{ID: "99", Type: memberOverwrite, Allow: pick(permView, permReadHistory), Deny: pick(permView, permReadHistory)})
			}
		}
		want := true
		for set := range 1 << (len(g.Roles) - 1) {
			roles := []role{g.Roles[0]}
			for i, x := range g.Roles[1:] {
				if set&(1<<i) != 0 {
					roles = append(roles, x)
				}
			}
			for _, m := range []string{"", "99"} {
				if p := combined("1", roles, list, m); p&permView != 0 && p&permReadHistory == 0 {
					want = false
				}
			}
		}
		got, err := historyIsUniversal(g, list)
		if err != nil || got != want {
			t.Fatalf("%v, %v, want %v for %+v %+v", got, err, want, g, list)
		}
		if want {
			yes++
		} else {
			no++
		}
	}
	if yes < 500 || no < 500 {
		t.Errorf("the examples are one-sided: %d yes, %d no", yes, no)
	}
}

// A channel may have a thousand overwrites, for a server's 250 roles and its
// members. What is asked before every picture is answered about the kinds of
// them, of which there are few.
func TestManyOverwrites(t *testing.T) {
	g := guild{ID: "1", Roles: []role{{ID: "1", Permissions: permView | permReadHistory}}}
	var list []overwrite
	for i := range 250 {
		id := fmt.Sprint(1000 + i)
		g.Roles = append(g.Roles, role{ID: id, Permissions: permissions(i)<<40 | permView})
		list = append(list, overwrite{ID: id, Allow: permView | permissions(i)<<40})
	}
	for i := range 750 {
		list = append(list, overwrite{ID: fmt.Sprint(5000 + i), Type: memberOverwrite, Allow: permView | permissions(i)<<40})
	}
	if n := len(distinct(g.Roles[1:], list)); n != 1 {
		t.Errorf("%d kinds of roles", n)
	}
	if ok, err := historyIsUniversal(g, list); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	list[999].Deny = permReadHistory
	if ok, err := historyIsUniversal(g, list); ok || err != nil {
		t.Errorf("the last member's: %v, %v", ok, err)
	}
	list[999].Deny, list[249].Deny = 0, permReadHistory
	if ok, err := historyIsUniversal(g, list); ok || err != nil {
		t.Errorf("the last role's: %v, %v", ok, err)
	}
}
