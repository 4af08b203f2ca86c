-- The answers of commands sent with an Idempotency-Key: the same again within a day is answered by the same event,
-- another request under the same key is refused.
CREATE TABLE command_key (
    ledger_id integer NOT NULL,
    command_key text COLLATE "C" NOT NULL,
    request_sha256 bytea NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- What the answer to a command is made of that becomes no event by itself; it names nobody.
    answer bytea,
    -- Of the id of the customer whom the command is about, so that it is found when they are forgotten.
    customer_sha256 bytea,
    PRIMARY KEY (ledger_id, command_key)
);
-- Statistics would keep a sample of what is deleted when somebody is forgotten.
ALTER TABLE command_key ALTER COLUMN command_key SET STATISTICS 0, ALTER COLUMN answer SET STATISTICS 0,
    ALTER COLUMN customer_sha256 SET STATISTICS 0;
-- Those that no longer count are deleted by it.
CREATE INDEX command_key_recorded ON command_key (ledger_id, recorded_at);
-- Those about somebody who is forgotten are deleted by these, while nobody can append.
CREATE INDEX command_key_position ON command_key (ledger_id, position);
CREATE INDEX command_key_customer ON command_key (ledger_id, customer_sha256) WHERE customer_sha256 IS NOT NULL;

-- What all instances of the service must know and nobody else may: the keys that customer tokens are signed with. Whoever
-- needs the first one makes it; a row never changes.
CREATE TABLE server_secret (
    ledger_id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    secret bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, name)
);

-- Sessions of the console, by the hash of what the browser holds. Whose a session is stands in the log alone: here is the hash
-- of the key's secret, by which its events are found, so that a key that was revoked has no session any more.
CREATE TABLE console_session (
    ledger_id integer NOT NULL,
    token_sha256 bytea NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    key_secret_sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL,
    -- Moved on once in a minute at most.
    used_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, token_sha256)
);

-- Links that sign somebody in once; whoever uses one deletes its row.
CREATE TABLE console_link (
    ledger_id integer NOT NULL,
    token_sha256 bytea NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    key_secret_sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, token_sha256)
);
