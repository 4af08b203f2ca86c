-- The answers of commands sent with an Idempotency-Key: the same again within a day is answered by the same event,
-- another request under the same key is refused.
CREATE TABLE command_key (
    ledger_id integer NOT NULL,
    command_key text NOT NULL,
    request_sha256 bytea NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, command_key)
);
