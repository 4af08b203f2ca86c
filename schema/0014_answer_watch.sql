-- For whom changes of answers are told: all apps (an empty name), or one app's customers by that app's facts alone; and, by
-- the same names behind `revenuecat/`, for whom it is told what became of purchases. A row is there as long as an endpoint
-- wants to hear of it.
CREATE TABLE answer_scope (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    -- What came before this position, and before this instant, is told to nobody.
    since_position bigint NOT NULL,
    since timestamptz NOT NULL,
    -- Up to which position everybody has been looked at for what bears on all: the beginning, and catalogs.
    settled_position bigint NOT NULL,
    -- The walk over everybody that is under way: up to which position it looks, and the last identity it came to. NULL
    -- where none is.
    walk_position bigint,
    walk_identity bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (ledger_id, app)
) WITH (fillfactor = 10);

-- Customers whose answer may change by time alone, or has changed: a projection of the log, which any process may go on with.
-- Who has no row is answered the same until an event bears on them.
CREATE TABLE answer_watch (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    -- A number of table identity: one of the names of a customer.
    identity bigint NOT NULL,
    environment smallint NOT NULL,
    -- The moment of the last look: all that bears on the customer up to this position, and this instant, is told.
    position bigint NOT NULL,
    looked_at timestamptz NOT NULL,
    -- When time alone may change the answer next; NULL where it cannot.
    next_at timestamptz,
    PRIMARY KEY (ledger_id, app, identity, environment)
) WITH (fillfactor = 70);
CREATE INDEX answer_watch_next ON answer_watch (ledger_id, next_at) WHERE next_at IS NOT NULL;
