package discord

import (
	"fmt"
	"slices"
)

// combined computes what a member with these roles may do in a channel. roles
// holds @everyone first. discordgo's own computation is wrong for threads,
// whose overwrites are their parent's.
func combined(guildID string, roles []role, list []overwrite, memberID string) permissions {
	var p permissions
	for _, r := range roles {
		p |= r.Permissions
	}
	if p&permAdministrator != 0 {
		return everyPermission
	}
	var allow, deny permissions
	for _, o := range list {
		if o.Type == memberOverwrite {
			continue
		}
		if o.ID == guildID {
			p = p&^o.Deny | o.Allow
			continue
		}
		for _, r := range roles {
			if r.ID == o.ID {
				allow, deny = allow|o.Allow, deny|o.Deny
			}
		}
	}
	p = p&^deny | allow
	for _, o := range list {
		if memberID != "" && o.Type == memberOverwrite && o.ID == memberID {
			p = p&^o.Deny | o.Allow
		}
	}
	return p
}

// historyIsUniversal reports whether everybody who can see a channel, now or
// with any other set of roles, can read its history, too.
//
// Members are not enumerated. Seeing without history takes at most one role
// that grants seeing and one that denies history, whatever else a member has:
// every other condition is about roles that are absent. So all sets of up to
// two roles, with no or one member overwrite, cover all members there can be.
// It errs towards no, since a member with an overwrite may not have the roles.
func historyIsUniversal(g guild, list []overwrite) (bool, error) {
	var everyone *role
	var others []role
	for i, r := range g.Roles {
		if r.ID == g.ID {
			everyone = &g.Roles[i]
			continue
		}
		others = append(others, r)
	}
	if everyone == nil {
		return false, fmt.Errorf("the guild's roles are incomplete")
	}
	members := []string{""}
	var few []overwrite // those that can make a difference
	seen := map[[2]permissions]bool{}
	for _, o := range list {
		kind := [2]permissions{o.Allow & matter, o.Deny & matter}
		switch {
		case o.Type == memberOverwrite && !seen[kind]:
			seen[kind] = true
			members, few = append(members, o.ID), append(few, o)
		case o.Type == memberOverwrite: // like another
		case o.Type != 0:
			return false, fmt.Errorf("an overwrite of an unknown type")
		case o.ID == g.ID:
			few = append(few, o)
		}
	}
	others = distinct(others, list)
	for _, o := range list {
		if o.Type == 0 && slices.ContainsFunc(others, func(r role) bool { return r.ID == o.ID }) {
			few = append(few, o)
		}
	}
	holds := func(member string, roles ...role) bool {
		p := combined(g.ID, roles, few, member)
		return p&permView == 0 || p&permReadHistory != 0
	}
	for _, m := range members {
		if !holds(m, *everyone) {
			return false, nil
		}
		for i, x := range others {
			if !holds(m, *everyone, x) {
				return false, nil
			}
			for _, y := range others[i+1:] {
				if !holds(m, *everyone, x, y) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// matter is what of a permission decides about seeing and reading. A channel
// may have a thousand overwrites, and differs by few of them.
const matter = permAdministrator | permView | permReadHistory

// distinct keeps one role of each kind: of those that grant the same and whose
// overwrites do.
func distinct(roles []role, list []overwrite) []role {
	own := map[string]overwrite{}
	for _, o := range list {
		if o.Type == 0 {
			own[o.ID] = o
		}
	}
	seen := map[[3]permissions]bool{}
	var out []role
	for _, r := range roles {
		o := own[r.ID]
		kind := [3]permissions{r.Permissions & matter, o.Allow & matter, o.Deny & matter}
		if !seen[kind] {
			seen[kind] = true
			out = append(out, r)
		}
	}
	return out
}
