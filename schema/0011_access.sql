-- Keys are kept as hashes: the key itself is shown once, when it is made.
CREATE TABLE api_key (
    ledger_id integer NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    secret_sha256 bytea NOT NULL,
    is_publishable boolean NOT NULL,
    scopes text[] NOT NULL,
    environment text,
    bundle_id text,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (ledger_id, key_id),
    UNIQUE (ledger_id, secret_sha256)
);

-- The answers of commands sent with an Idempotency-Key: the same again within a day is answered by the same event,
-- another request under the same key is refused.
CREATE TABLE command_key (
    ledger_id integer NOT NULL,
    command_key text COLLATE "C" NOT NULL,
    request_sha256 bytea NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, command_key)
);

-- What all instances of the service must know and nobody else may: the keys that customer tokens are signed with. Whoever
-- needs the first one makes it; a row never changes.
CREATE TABLE server_secret (
    ledger_id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    secret bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, name)
);
