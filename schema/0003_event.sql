-- The log. One row is one event; nothing is ever changed or removed here.
CREATE TABLE event (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- The statement's own signed date.
    occurred_at timestamptz,
    -- NULL for what concerns no environment, such as a catalog.
    environment text,
    source text NOT NULL,
    type text NOT NULL,
    original_transaction_id text,
    transaction_id text,
    product_id text,
    -- Surrogates of table identity: whose the statement is (the account token's customer, else the app
    -- transaction's), and the app transaction's beside an account token.
    identity bigint,
    other_identity bigint,
    -- Canonical bytes; the hash covers exactly these.
    facts bytea NOT NULL,
    evidence_sha256 bytea,
    previous_hash bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (ledger_id, position)
) PARTITION BY RANGE (position);
