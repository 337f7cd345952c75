-- An answer that is shown while it is made. The row is written before the
-- platform is asked; native_id after. Its first words help to find the
-- message where a kill came between the two.
CREATE TABLE draft (
    key       text        PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
    turn      id_turn     NOT NULL REFERENCES turn,
    first     text        NOT NULL CHECK (octet_length(first) <= 262144),
    native_id text        CHECK (octet_length(native_id) BETWEEN 1 AND 1024),
    ended     boolean     NOT NULL DEFAULT false, -- withdrawn, or removed by a person
    at        timestamptz NOT NULL DEFAULT now()
);
