-- The rebuild under way, or the last one. Every page of it is one transaction that holds this row, checks the lease
-- in it and says how far it came; so a killed rebuild goes on where it stopped, and one that lost its lease to
-- another can write nothing more.
CREATE TABLE rebuild (
    ledger_id integer PRIMARY KEY,
    phase text NOT NULL CHECK (phase IN ('emptying', 'folding', 'catching_up', 'proving', 'clearing', 'done')),
    fold_version integer NOT NULL,
    -- The table being filled, as in ledger_head.live_views; the old one from phase 'clearing' on.
    target smallint NOT NULL,
    started_at timestamptz NOT NULL,
    -- The head when it started.
    start_position bigint NOT NULL,
    -- Up to where events that came after the walk passed by are folded in.
    caught_up bigint NOT NULL,
    -- The last original transaction that is done in phases 'folding' and 'proving'; NULL before the first.
    cursor_environment text,
    cursor_original text,
    events bigint NOT NULL,
    originals bigint NOT NULL,
    -- Who works on it, and when it was last heard from, by the database's clock.
    holder text,
    heartbeat_at timestamptz NOT NULL
) WITH (fillfactor = 10);
