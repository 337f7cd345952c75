-- What the web place knows as a platform: its conversations, what was said in
-- them and which files came along. Bytes are files in the state directory,
-- never rows.

create table web_conversation (
    id         text        primary key check (id ~ '^cv_[0-9a-z]{26}$'),
    agent      text        not null check (agent <> ''),
    owner      text        not null check (owner <> ''),
    name       text        not null check (name <> '' and char_length(name) <= 100),
    created_at timestamptz not null default now(),
    unique (agent, owner, name)
);

create table web_message (
    id           text        primary key check (id ~ '^m_[0-9a-z]{26}$'),
    conversation text        not null references web_conversation,
    -- The order of posting in a conversation.
    seq          bigint      generated always as identity unique,
    -- As the rest of Sightline names this message and the turn it starts, or,
    -- in the agent's own messages, the turn it ends.
    message_id   text        not null unique,
    turn         text        not null,
    kind         text        not null check (kind in ('person', 'answer', 'failure', 'stopped')),
    author       text        not null,
    revision     integer     not null default 1,
    text         text        not null check (octet_length(text) <= 1048576),
    at           timestamptz not null default now(),
    -- A retried request, or a retried activity, finds what it wrote before.
    client_key   text        check (char_length(client_key) between 1 and 100),
    reply_key    text        unique,
    deleted_at   timestamptz,
    -- Until both are set, the event is handed over again.
    posted_delivered_at  timestamptz,
    deleted_delivered_at timestamptz,
    unique (conversation, author, client_key),
    check ((kind = 'person') = (client_key is not null)),
    check ((kind = 'person') = (reply_key is null))
);

create index web_message_conversation on web_message (conversation, seq);

create index web_message_undelivered on web_message (conversation, seq)
    where kind = 'person'
      and ((deleted_at is null and posted_delivered_at is null)
        or (deleted_at is not null and deleted_delivered_at is null));

create table web_upload (
    id            text        primary key check (id ~ '^up_[0-9a-z]{26}$'),
    conversation  text        not null references web_conversation,
    owner         text        not null,
    message       text        references web_message, -- null: not sent yet
    position      integer     not null default 0,
    name          text        not null check (name <> '' and char_length(name) <= 100),
    declared_type text        not null,
    sniffed_type  text        not null,
    size          bigint      not null check (size > 0),
    width         integer     not null default 0,
    height        integer     not null default 0,
    note          text        not null default '',  -- why it is not shown as a picture
    created_at    timestamptz not null default now(),
    removed_at    timestamptz
);

create index web_upload_message on web_upload (message, position);
create index web_upload_conversation on web_upload (conversation) where removed_at is null;
