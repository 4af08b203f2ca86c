-- Keys are kept as hashes: the key itself is shown once, when it is made.
CREATE TABLE api_key (
    ledger_id integer NOT NULL,
    key_id text NOT NULL,
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
