-- What makes an append idempotent: the source's own id together with the hash of the decoded payload.
CREATE TABLE event_key (
    ledger_id integer NOT NULL,
    source_id text NOT NULL,
    payload_sha256 bytea NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (ledger_id, source_id, payload_sha256)
);
