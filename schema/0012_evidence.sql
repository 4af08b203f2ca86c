-- The signed bytes each event was taken from, apart from the log so that they can be erased. The parts name the
-- headers of table jws_header instead of repeating them.
CREATE TABLE evidence (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    parts bytea NOT NULL,
    PRIMARY KEY (ledger_id, position)
) PARTITION BY RANGE (position);
