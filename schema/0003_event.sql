-- The log. One row is one event; nothing is ever changed or removed here.
CREATE TABLE event (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- The statement's own signed date.
    occurred_at timestamptz,
    -- 1 production, 2 sandbox; NULL for what concerns no environment, such as a catalog.
    environment smallint,
    -- Who stated it; the numbers are those of EventSource.
    source smallint NOT NULL,
    type text COLLATE "C" NOT NULL,
    original_transaction_id text COLLATE "C",
    transaction_id text COLLATE "C",
    product_id text COLLATE "C",
    -- Numbers of table identity: whose the statement is (the account token's customer, else the app transaction's), and
    -- the app transaction's beside an account token.
    identity bigint,
    other_identity bigint,
    -- 16 bytes of a SHA-256 of the source's own id: of the id alone for the first event under it, of the id and the
    -- payload's hash for an event with another payload. An API key is made and revoked under the hash of its secret.
    dedup_key bytea,
    -- Canonical bytes; the hash covers exactly these.
    facts bytea NOT NULL,
    evidence_sha256 bytea,
    previous_hash bytea NOT NULL,
    hash bytea NOT NULL,
    -- Of the identities whose numbers this event is the first to bear, in the order of the numbers: SHA-256(salt || value)
    -- of each row of table identity. The hash covers them, so that no number can be given to somebody else.
    identity_commitments bytea,
    PRIMARY KEY (ledger_id, position),
    CHECK (position > 0)
);

-- One original transaction's events in order.
CREATE INDEX event_original ON event (ledger_id, environment, original_transaction_id, position)
WHERE original_transaction_id IS NOT NULL;

-- A purchase is found by its original transaction, so only later periods need an entry.
CREATE INDEX event_transaction ON event (ledger_id, transaction_id)
WHERE transaction_id <> original_transaction_id;

-- One signed statement is one event: the database itself refuses a second.
CREATE UNIQUE INDEX event_dedup ON event (ledger_id, dedup_key) WHERE dedup_key IS NOT NULL;

-- The store's questions about refund requests, which are to be answered within hours.
CREATE INDEX event_consumption ON event (ledger_id, position) WHERE type = 'consumption_requested';

-- The few events that are about nobody in particular: they change the catalog, say that a person was forgotten, or who
-- may ask.
CREATE INDEX event_general ON event (ledger_id, type, position)
WHERE type IN (
    'catalog_applied', 'forgotten', 'api_key_created', 'api_key_revoked', 'pass_keys_changed', 'webhook_endpoint_created',
    'webhook_endpoint_changed',
    'webhook_secret_rotated', 'webhook_endpoint_paused', 'webhook_endpoint_resumed', 'webhook_endpoint_deleted');

-- What may tell of a difference between device, ledger and store: what the store was asked for (the 2 of EventSource), and
-- what devices found.
CREATE INDEX event_drift ON event (ledger_id, position) WHERE source = 2 OR type = 'drift';
