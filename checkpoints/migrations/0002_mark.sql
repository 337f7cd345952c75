-- How far a connector has delivered each of a platform's channels. Losing a
-- row loses the messages that came while the program was down, nothing else.
CREATE TABLE mark (
    agent    id_agent    NOT NULL,
    platform text        NOT NULL CHECK (platform ~ '^[a-z][a-z0-9]{0,31}$'),
    scope    label       NOT NULL, -- a guild or a workspace; empty: direct
    channel  label       NOT NULL,
    message  label       NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, platform, scope, channel)
);
