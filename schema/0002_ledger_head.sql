-- The end of each ledger's log. Whoever appends holds this row's lock until the commit, so positions are dense and
-- in the order of commits; an aborted append leaves no hole. Small updates stay on one page (fillfactor), and dead
-- versions are removed early.
CREATE TABLE ledger_head (
    ledger_id integer PRIMARY KEY,
    position bigint NOT NULL,
    -- Never decreases: an append records the later of its own clock and this.
    recorded_at timestamptz NOT NULL,
    -- The hash of the last event; 32 zero bytes before the first.
    hash bytea NOT NULL,
    next_identity bigint NOT NULL,
    -- Where the catalog in force was written; 0 before any.
    catalog_position bigint NOT NULL DEFAULT 0,
    -- Which rows of original_view count; a rebuild fills the next generation and then moves this number.
    view_generation integer NOT NULL DEFAULT 0,
    -- The ledger's own name, by which its checkpoints are told from those of others.
    own_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Which instance reads without asking where the log ends; whoever else appends waits, and takes this away. NULL: none.
    lease_holder bigint,
    -- From when on an instance may have that again, and how long the last pause was: the next is longer.
    lease_free_at timestamptz NOT NULL DEFAULT 'epoch',
    lease_pause interval NOT NULL DEFAULT '1 second'
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

INSERT INTO ledger_head (ledger_id, position, recorded_at, hash, next_identity)
VALUES (1, 0, 'epoch', decode(repeat('00', 32), 'hex'), 1);
