-- The fold of one original transaction's statements, free of catalog and ownership. It counts only while its version
-- is the program's and its last position is the log's; else the answer is folded from the log.
CREATE TABLE original_view (
    ledger_id integer NOT NULL,
    environment text NOT NULL,
    original_transaction_id text NOT NULL,
    fold_version integer NOT NULL,
    last_position bigint NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (ledger_id, environment, original_transaction_id)
) WITH (fillfactor = 85);
