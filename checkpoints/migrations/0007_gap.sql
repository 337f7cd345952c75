-- Channels, and threads, of which messages may be missing that were said after
-- `since`, though newer ones were recorded. Losing a row loses those messages.
CREATE TABLE gap (
    agent    id_agent    NOT NULL,
    platform text        NOT NULL CHECK (platform ~ '^[a-z][a-z0-9]{0,31}$'),
    channel  label       NOT NULL, -- or a thread, as the connector names it; empty: all that have no row of their own
    since    label       NOT NULL, -- in the platform's own words
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, platform, channel)
);
