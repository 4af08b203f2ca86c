-- How far each projection has come. Rows are written with the views they speak of, in one commit.
CREATE TABLE projection (
    ledger_id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    checkpoint bigint NOT NULL,
    PRIMARY KEY (ledger_id, name)
) WITH (fillfactor = 10);

-- The rebuild under way, or the last one. Every page of it is one transaction that holds this row, checks the lease in
-- it and says how far it came; so a killed rebuild goes on where it stopped, and one that lost its lease to another can
-- write nothing more.
CREATE TABLE rebuild (
    ledger_id integer PRIMARY KEY,
    phase text NOT NULL CHECK (phase IN ('emptying', 'folding', 'proving', 'clearing', 'done')),
    fold_version integer NOT NULL,
    -- The generation being filled; the old one from phase 'clearing' on.
    generation integer NOT NULL,
    started_at timestamptz NOT NULL,
    -- The head when it started: the fold ends there, and the projector goes on from there.
    start_position bigint NOT NULL,
    -- The last original transaction that is done in the phase; NULL before the first.
    cursor_environment smallint,
    cursor_original text COLLATE "C",
    events bigint NOT NULL,
    originals bigint NOT NULL,
    -- Rows written, and the exclusive or of their hashes: what the proof compares the stored rows with.
    written bigint NOT NULL,
    digest bytea NOT NULL,
    -- Who works on it, and when it was last heard from, by the database's clock.
    holder text,
    heartbeat_at timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Work behind running services that fails, one row each and a machine; the row goes when it succeeds.
CREATE TABLE work_failure (
    ledger_id integer NOT NULL,
    work text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (ledger_id, work, host)
);

-- What the log speaks of: kinds of remarks on notifications (things for a person to look at), and products, once more those
-- that were sold as non-renewing subscriptions; of those that were sold on the web the name is Stripe's price and, on a second
-- line, Stripe's product. Counted behind the log, as far as row 'seen' of table projection says.
CREATE TABLE seen (
    ledger_id integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('remark', 'product', 'web_product', 'non_renewing')),
    name text COLLATE "C" NOT NULL,
    events bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    PRIMARY KEY (ledger_id, kind, name)
) WITH (fillfactor = 50);

-- What stretches of the log contribute to charts, by chart: counted behind the log, as far as row 'charts' of table
-- projection says. Stretches of level 0 are 1024 positions long, and of each level above 32 times as long as of that below;
-- so what is known at a position is the sum of a few rows. Of a stretch that is not over there is a row at level 0 alone.
CREATE TABLE chart_part (
    ledger_id integer NOT NULL,
    level smallint NOT NULL,
    -- Counts the stretches of a level from the beginning of the log, from 0.
    number bigint NOT NULL,
    environment smallint NOT NULL,
    chart text COLLATE "C" NOT NULL,
    -- By series and day what is added; the bytes are those of ChartCells.
    cells bytea COMPRESSION lz4 NOT NULL,
    PRIMARY KEY (ledger_id, level, number, environment, chart)
);
