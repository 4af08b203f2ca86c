-- The differences between device, ledger and store: a projection of the log, which any process may derive again. One row
-- is one event that found a difference.
CREATE TABLE drift (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    environment smallint NOT NULL,
    -- 1 device and ledger, 2 store and ledger.
    comparison smallint NOT NULL,
    -- The numbers are those of DriftClass and DriftCause; the cause alone decides the class.
    class smallint NOT NULL,
    cause smallint NOT NULL,
    -- Empty where nothing tells it.
    app text COLLATE "C" NOT NULL,
    is_open boolean NOT NULL,
    -- A number of table identity.
    identity bigint,
    product_id text COLLATE "C",
    original_transaction_id text COLLATE "C",
    found_at timestamptz NOT NULL,
    -- The event that resolved it; the numbers of `resolved_by` are those of DriftEnd.
    resolved_position bigint,
    resolved_at timestamptz,
    resolved_by smallint,
    -- When the store was asked about it last. That is no part of what the log says.
    asked_at timestamptz,
    PRIMARY KEY (ledger_id, position),
    CHECK (is_open = (resolved_position IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX drift_list ON drift (ledger_id, environment, class, app, is_open, position);

-- Which events bear on a difference that may still change: those that name one of these identities (then without an
-- environment, 0) or one of these original transactions (then without an identity, 0).
CREATE TABLE drift_key (
    ledger_id integer NOT NULL,
    identity bigint NOT NULL,
    environment smallint NOT NULL,
    original_transaction_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (ledger_id, identity, environment, original_transaction_id, position)
);
CREATE INDEX drift_key_position ON drift_key (ledger_id, position);

-- How many differences there are, so that nobody has to count them.
CREATE TABLE drift_count (
    ledger_id integer NOT NULL,
    environment smallint NOT NULL,
    class smallint NOT NULL,
    app text COLLATE "C" NOT NULL,
    open bigint NOT NULL,
    found bigint NOT NULL,
    -- Of those that are open, how many are not told apart because more is known than is compared.
    not_compared bigint NOT NULL,
    PRIMARY KEY (ledger_id, environment, class, app)
) WITH (fillfactor = 10);

-- Since when the ledger has listened to each app's stream, once somebody had to know: what the store said before is history.
CREATE TABLE drift_stream (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, app, environment)
);
