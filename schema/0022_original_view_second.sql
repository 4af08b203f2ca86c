-- Views are rebuilt beside the live ones: two tables of one shape, of which one is live. Rows of either prove
-- themselves against the log, so that looking into the other one by mistake costs time and never an answer.
CREATE TABLE original_view_second (
    ledger_id integer NOT NULL,
    environment text NOT NULL,
    original_transaction_id text NOT NULL,
    fold_version integer NOT NULL,
    last_position bigint NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (ledger_id, environment, original_transaction_id)
) WITH (fillfactor = 85);

-- Which of the two is live: 0 is original_view, 1 is original_view_second. It stands in the head row because whoever
-- appends must know it under the head's lock, and whoever swaps them takes that lock.
ALTER TABLE ledger_head ADD COLUMN live_views smallint NOT NULL DEFAULT 0 CHECK (live_views IN (0, 1));
