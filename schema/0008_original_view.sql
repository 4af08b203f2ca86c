-- Snapshots of the fold of original transactions with many events, free of catalog and ownership. A row holds the state
-- as of `last_position`; whoever reads it joins the log's later events of the same original transaction. It counts only
-- while its generation is the ledger's, its version is the program's, and `last_position` is one of the original's events;
-- else the answer is folded from the log alone.
CREATE TABLE original_view (
    ledger_id integer NOT NULL,
    generation integer NOT NULL,
    environment smallint NOT NULL,
    original_transaction_id text COLLATE "C" NOT NULL,
    fold_version integer NOT NULL,
    last_position bigint NOT NULL,
    -- How many events are folded into it.
    events bigint NOT NULL,
    state bytea COMPRESSION lz4 NOT NULL,
    PRIMARY KEY (ledger_id, generation, environment, original_transaction_id)
) WITH (fillfactor = 85);
