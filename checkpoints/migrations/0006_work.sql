-- A thread finds its channel, and a channel its threads.
CREATE INDEX place_parent ON place (parent) WHERE parent IS NOT NULL;
CREATE INDEX attachment_place ON attachment (place, ordinal);

-- What is about to change something outside. Found without a receipt, it may
-- have happened or not: nobody may assume either.
CREATE TABLE intent (
    turn    id_turn     NOT NULL REFERENCES turn,
    seq     integer     NOT NULL CHECK (seq >= 0),
    tool    text        NOT NULL CHECK (octet_length(tool) BETWEEN 1 AND 128),
    call_id label       NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn, seq)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON intent FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- The places whose contents a tool's answer told of, besides the attachments
-- that it selected: whoever reads the reply has to be a reader of each.
ALTER TABLE receipt ADD COLUMN places json NOT NULL DEFAULT '[]'
    CHECK (json_typeof(places) = 'array' AND octet_length(places::text) <= 65536);

-- What an owner decided for one conversation.
CREATE TABLE setting (
    agent        id_agent        NOT NULL,
    conversation id_conversation NOT NULL,
    name         text            NOT NULL CHECK (name ~ '^[a-z_]{1,64}$'),
    value        label           NOT NULL,
    by           actor           NOT NULL,
    at           timestamptz     NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, conversation, name)
);

-- A conversation's workspace: one at a time, removed when nobody used it for
-- a while. Its files are on disk; here is what is known of them.
CREATE TABLE workspace (
    id           text            PRIMARY KEY CHECK (id ~ '^wsp_[0-9a-hjkmnp-tv-z]{26}$'),
    agent        id_agent        NOT NULL,
    conversation id_conversation NOT NULL,
    created_at   timestamptz     NOT NULL DEFAULT now(),
    used_at      timestamptz     NOT NULL DEFAULT now(),
    removed_at   timestamptz
);
CREATE UNIQUE INDEX workspace_live ON workspace (agent, conversation) WHERE removed_at IS NULL;

-- A file and the attachments that it may have been made of. For what was
-- imported that is one; for what a command changed, all that were there.
CREATE TABLE workspace_file (
    workspace text        NOT NULL REFERENCES workspace,
    name      text        NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 4096),
    imported  boolean     NOT NULL,
    digest    sha256_hex,
    sources   json        NOT NULL CHECK (json_typeof(sources) = 'array' AND octet_length(sources::text) <= 65536),
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace, name)
);

-- Who holds a connection that only one process may hold.
CREATE TABLE lease (
    name   label       PRIMARY KEY CHECK (name <> ''),
    holder label       NOT NULL CHECK (holder <> ''),
    until  timestamptz NOT NULL
);

-- What older turns of a conversation come down to, with its label: the
-- messages and attachments that it was made of. It is dropped from every
-- later prompt when one of them is gone.
CREATE TABLE summary (
    agent        id_agent        NOT NULL,
    conversation id_conversation NOT NULL,
    seq          integer         NOT NULL CHECK (seq >= 1),
    upto         id_turn         NOT NULL REFERENCES turn, -- the last turn that it retells
    turns        integer         NOT NULL CHECK (turns >= 1),
    text         text            NOT NULL CHECK (octet_length(text) BETWEEN 1 AND 65536),
    messages     json            NOT NULL CHECK (json_typeof(messages) = 'array'),
    attachments  json            NOT NULL CHECK (json_typeof(attachments) = 'array'),
    at           timestamptz     NOT NULL DEFAULT now(),
    stale_at     timestamptz,
    PRIMARY KEY (agent, conversation, seq)
);

-- An answer draws on all that its turn had before it, and every later answer
-- on it: when a source is deleted, they leave later prompts together.
ALTER TABLE turn ADD COLUMN stale_at timestamptz;

-- An answer that was made and not posted, since it drew on what may not be
-- shown any more. What was said before it in the turn goes with it.
CREATE TABLE discard (
    turn   id_turn     NOT NULL REFERENCES turn,
    seq    integer     NOT NULL CHECK (seq >= 0),
    reason label       NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn, seq)
);

-- What an answer draws on: attachments, and the places whose readers have to
-- include whoever reads it.
CREATE TABLE provenance (
    turn        id_turn     NOT NULL REFERENCES turn,
    seq         integer     NOT NULL CHECK (seq >= 0),
    attachments json        NOT NULL CHECK (json_typeof(attachments) = 'array' AND octet_length(attachments::text) <= 1048576),
    places      json        NOT NULL CHECK (json_typeof(places) = 'array' AND octet_length(places::text) <= 1048576),
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (turn, seq)
);

-- Messages that are recorded while Temporal could not be told of them. What is
-- here is told until that succeeds, whatever the platform repeats.
CREATE TABLE owed (
    message      id_message      PRIMARY KEY REFERENCES message,
    agent        id_agent        NOT NULL,
    conversation id_conversation NOT NULL,
    place        id_place        NOT NULL,
    platform     text            NOT NULL,
    attachments  integer         NOT NULL CHECK (attachments >= 0),
    at           timestamptz     NOT NULL DEFAULT now()
);
