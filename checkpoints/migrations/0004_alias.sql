-- The IDs under which a platform knows a channel now, and the one under which
-- its places were first met. Losing a row splits a channel's memory in two.
CREATE TABLE alias (
    seq      bigint      GENERATED ALWAYS AS IDENTITY, -- the last one of a channel is its present ID
    agent    id_agent    NOT NULL,
    platform text        NOT NULL CHECK (platform ~ '^[a-z][a-z0-9]{0,31}$'),
    first    label       NOT NULL CHECK (first <> ''),
    id       label       NOT NULL CHECK (id <> '' AND id <> first),
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, platform, id)
);
