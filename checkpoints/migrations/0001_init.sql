-- What must survive a crash. No column here is made for pixels, base64 or a
-- connector's URL.
--
-- JSON from outside (model, tools) is json, not jsonb: it is kept verbatim, so
-- that its digest holds, and an escaped NUL in it is not refused.

CREATE DOMAIN id_agent        AS text CHECK (octet_length(VALUE) BETWEEN 1 AND 128);
CREATE DOMAIN id_place        AS text CHECK (VALUE ~ '^plc_[0-9a-hjkmnp-tv-z]{26}$');
CREATE DOMAIN id_conversation AS text CHECK (VALUE ~ '^cnv_[0-9a-hjkmnp-tv-z]{26}$');
CREATE DOMAIN id_message      AS text CHECK (VALUE ~ '^msg_[0-9a-hjkmnp-tv-z]{26}$');
CREATE DOMAIN id_turn         AS text CHECK (VALUE ~ '^trn_[0-9a-hjkmnp-tv-z]{26}$');
CREATE DOMAIN id_attachment   AS text CHECK (VALUE ~ '^att_[0-9a-hjkmnp-tv-z]{26}$');
CREATE DOMAIN sha256_hex      AS text CHECK (VALUE ~ '^[0-9a-f]{64}$');
CREATE DOMAIN label           AS text CHECK (octet_length(VALUE) <= 1024);
CREATE DOMAIN file_state      AS text
    CHECK (VALUE IN ('', 'available', 'deleted', 'external', 'hidden', 'denied', 'oversize', 'unreadable'));
CREATE DOMAIN actor           AS jsonb CHECK (jsonb_typeof(VALUE) = 'object' AND octet_length(VALUE::text) <= 8192);

-- A parent is not a foreign key: a thread is often heard of before its channel.
CREATE TABLE place (
    id        id_place PRIMARY KEY,
    agent     id_agent NOT NULL,
    platform  text     NOT NULL CHECK (platform ~ '^[a-z][a-z0-9]{0,31}$'),
    workspace label    NOT NULL,
    channel   label    NOT NULL,
    thread    label    NOT NULL,
    parent    id_place,
    kind      text     NOT NULL
        CHECK (kind IN ('channel', 'public_thread', 'private_thread', 'direct', 'group_direct', 'ephemeral')),
    epoch     bigint   NOT NULL CHECK (epoch >= 0),
    UNIQUE (id, agent)
);

-- Its row is the lock under which a conversation's events are recorded.
CREATE TABLE conversation (
    id           id_conversation PRIMARY KEY,
    agent        id_agent NOT NULL,
    place        id_place NOT NULL,
    last_ordinal bigint   NOT NULL DEFAULT 0 CHECK (last_ordinal >= 0),
    UNIQUE (id, agent),
    FOREIGN KEY (place, agent) REFERENCES place (id, agent)
);

-- reply_to is not a foreign key: the answered message may never have been seen.
CREATE TABLE message (
    id           id_message PRIMARY KEY,
    conversation id_conversation NOT NULL REFERENCES conversation,
    place        id_place    NOT NULL REFERENCES place,
    native_id    text        NOT NULL CHECK (octet_length(native_id) BETWEEN 1 AND 1024),
    revision     label       NOT NULL,
    author       actor       NOT NULL,
    from_agent   boolean     NOT NULL,
    text         text        NOT NULL CHECK (octet_length(text) <= 262144),
    at           timestamptz NOT NULL,
    reply_to     id_message,
    edited_at    timestamptz,
    deleted_at   timestamptz,
    UNIQUE (id, conversation),
    UNIQUE (place, native_id),
    CHECK (deleted_at IS NULL OR text = '')
);

CREATE TABLE attachment (
    id            id_attachment PRIMARY KEY,
    agent         id_agent        NOT NULL,
    conversation  id_conversation NOT NULL,
    place         id_place        NOT NULL REFERENCES place,
    message       id_message      NOT NULL,
    ordinal       bigint          NOT NULL CHECK (ordinal >= 1),
    idx           bigint          NOT NULL CHECK (idx >= 0),
    native_file   text            NOT NULL CHECK (octet_length(native_file) BETWEEN 1 AND 1024),
    name          label           NOT NULL,
    declared_type label           NOT NULL,
    sniffed_type  label           NOT NULL,
    size          bigint          NOT NULL CHECK (size >= 0),
    width         bigint          NOT NULL CHECK (width >= 0),
    height        bigint          NOT NULL CHECK (height >= 0),
    origin        text            NOT NULL CHECK (origin IN ('direct', 'forward', 'replied', 'interaction')),
    state         file_state      NOT NULL,
    state_reason  label           NOT NULL,
    digest        sha256_hex,
    UNIQUE (agent, message, native_file, origin),
    UNIQUE (conversation, ordinal),
    FOREIGN KEY (conversation, agent) REFERENCES conversation (id, agent),
    FOREIGN KEY (message, conversation) REFERENCES message (id, conversation)
);

-- The trail refers to nothing: it must take down what was asked for, even when
-- that does not exist. A trail that could fail would turn into a way around it.
CREATE TABLE use (
    seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn          label       NOT NULL,
    agent         label       NOT NULL,
    conversation  label       NOT NULL,
    actor         actor       NOT NULL,
    attachment    label       NOT NULL,
    destination   label       NOT NULL,
    action        label       NOT NULL,
    allowed       boolean     NOT NULL,
    rule          label       NOT NULL,
    reason        label       NOT NULL,
    source_epoch  bigint      NOT NULL,
    dest_epoch    bigint      NOT NULL,
    digest        sha256_hex,
    bytes_fetched bigint      NOT NULL CHECK (bytes_fetched >= 0),
    at            timestamptz NOT NULL
);
CREATE INDEX use_attachment ON use (agent, attachment, at, seq);

CREATE TABLE turn (
    id           id_turn PRIMARY KEY,
    agent        id_agent        NOT NULL,
    conversation id_conversation NOT NULL,
    place        id_place        NOT NULL,
    message      id_message      NOT NULL,
    actor        actor           NOT NULL,
    workflow_id  label           NOT NULL,
    run_id       label           NOT NULL,
    state        text            NOT NULL CHECK (state IN ('running', 'answered', 'failed', 'stopped')),
    reason       text            NOT NULL CHECK (octet_length(reason) <= 8192),
    started_at   timestamptz     NOT NULL,
    finished_at  timestamptz,
    CHECK ((state = 'running') = (finished_at IS NULL)),
    FOREIGN KEY (conversation, agent) REFERENCES conversation (id, agent),
    FOREIGN KEY (place, agent) REFERENCES place (id, agent),
    FOREIGN KEY (message, conversation) REFERENCES message (id, conversation)
);
CREATE INDEX turn_history ON turn (agent, conversation, started_at, id);
CREATE INDEX turn_running ON turn (agent, started_at, id) WHERE state = 'running';

CREATE TABLE step (
    turn    id_turn     NOT NULL REFERENCES turn,
    seq     integer     NOT NULL CHECK (seq >= 0),
    kind    text        NOT NULL CHECK (kind IN ('user', 'assistant', 'tool')),
    message id_message  REFERENCES message,
    body    json        CHECK (octet_length(body::text) <= 1048576),
    digest  sha256_hex,
    at      timestamptz NOT NULL,
    PRIMARY KEY (turn, seq),
    CHECK ((kind = 'user') = (message IS NOT NULL)),
    CHECK (kind = 'user' OR body IS NOT NULL),
    CHECK ((body IS NULL) = (digest IS NULL))
);
CREATE INDEX step_message ON step (message) WHERE message IS NOT NULL;

CREATE TABLE receipt (
    turn     id_turn     NOT NULL,
    seq      integer     NOT NULL,
    tool     text        NOT NULL CHECK (octet_length(tool) BETWEEN 1 AND 128),
    call_id  label       NOT NULL,
    verdict  text        NOT NULL CHECK (verdict IN ('done', 'refused', 'failed', 'uncertain')),
    reason   text        NOT NULL CHECK (octet_length(reason) <= 8192),
    selected json        NOT NULL CHECK (json_typeof(selected) = 'array' AND octet_length(selected::text) <= 65536),
    at       timestamptz NOT NULL,
    PRIMARY KEY (turn, seq),
    FOREIGN KEY (turn, seq) REFERENCES step
);

-- Its body is retold by no one: operators read it. seq has no step yet when
-- the request goes out, so it is no foreign key.
CREATE TABLE audit (
    turn          id_turn     NOT NULL REFERENCES turn,
    seq           integer     NOT NULL CHECK (seq >= 0),
    attempt       integer     NOT NULL CHECK (attempt >= 1),
    model         label       NOT NULL,
    body          json        NOT NULL CHECK (octet_length(body::text) <= 1048576),
    pictures      json        NOT NULL CHECK (json_typeof(pictures) = 'array' AND octet_length(pictures::text) <= 65536),
    input_tokens  bigint      NOT NULL CHECK (input_tokens >= 0),
    output_tokens bigint      NOT NULL CHECK (output_tokens >= 0),
    outcome       text        NOT NULL CHECK (octet_length(outcome) <= 8192),
    took_ns       bigint      NOT NULL CHECK (took_ns >= 0),
    at            timestamptz NOT NULL,
    PRIMARY KEY (turn, seq, attempt)
);

CREATE TABLE post (
    key       text        PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
    turn      id_turn     NOT NULL REFERENCES turn,
    kind      text        NOT NULL CHECK (kind IN ('answer', 'failure', 'stopped')),
    text      text        NOT NULL CHECK (octet_length(text) <= 262144),
    native_id text        CHECK (octet_length(native_id) BETWEEN 1 AND 1024),
    at        timestamptz NOT NULL,
    posted_at timestamptz,
    CHECK ((native_id IS NULL) = (posted_at IS NULL))
);
CREATE INDEX post_turn ON post (turn, at, key);

CREATE TABLE quarantine (
    digest sha256_hex  NOT NULL,
    model  label       NOT NULL,
    reason label       NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (digest, model)
);

-- Transcript, receipts and trail are written once. A rule in the program would
-- bind the program only.
CREATE FUNCTION refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_TABLE_NAME || '_append_only';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON step    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON receipt FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON use     FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();

-- An audit may be closed, once; what was sent may not be changed.
CREATE FUNCTION refuse_audit_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.outcome = '' AND NEW.outcome <> ''
        AND (OLD.turn, OLD.seq, OLD.attempt, OLD.model, OLD.at) = (NEW.turn, NEW.seq, NEW.attempt, NEW.model, NEW.at)
        AND (OLD.body::text, OLD.pictures::text) = (NEW.body::text, NEW.pictures::text)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit is append-only'
        USING ERRCODE = 'restrict_violation', CONSTRAINT = 'audit_append_only';
END $$;

CREATE TRIGGER closed_once BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_rewrite();
CREATE TRIGGER append_only BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewrite();
