package fakediscord

// whole is a guild with every field that the API always has.
func (g *guild) whole() map[string]any {
	out := map[string]any{
		"id": g.ID, "name": g.Name, "owner_id": g.Owner, "roles": g.Roles, "features": append([]string{}, g.Features...),
		"region": "deprecated", "afk_timeout": 300, "system_channel_flags": 0, "widget_enabled": false, "verification_level": 0,
		"default_message_notifications": 0, "mfa_level": 0, "explicit_content_filter": 0, "max_members": 500000,
		"max_stage_video_channel_users": 50, "max_video_channel_users": 25, "premium_tier": 0, "premium_subscription_count": 0,
		"preferred_locale": "en-US", "premium_progress_bar_enabled": false, "nsfw": false, "nsfw_level": 0,
		"emojis": []any{}, "stickers": []any{},
	}
	for _, k := range []string{"icon", "description", "home_header", "splash", "discovery_splash", "banner", "application_id", "afk_channel_id",
		"system_channel_id", "widget_channel_id", "max_presences", "vanity_url_code", "rules_channel_id", "safety_alerts_channel_id",
		"public_updates_channel_id", "incidents_data"} {
		out[k] = nil
	}
	return out
}
