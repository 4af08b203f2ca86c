-- When the next request to the App Store Server API may be sent, in milliseconds since 1970 by the database's clock: one
-- row for each app, environment and kind of request, shared by all instances.
CREATE TABLE store_quota (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    next_at double precision NOT NULL,
    PRIMARY KEY (ledger_id, app, environment, kind)
) WITH (fillfactor = 10);

-- How far the store's own history of notifications was read, for each app and environment. A sweep reads the window
-- [window_from, window_until) page by page; `cursor` names the next page, and is written once a page is in the log. So a
-- sweep that was killed goes on where it stopped, and one that lost its lease to another can write nothing more.
CREATE TABLE store_sweep (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    -- NULL where no sweep is under way.
    window_from timestamptz,
    window_until timestamptz,
    cursor text COLLATE "C",
    -- Of the sweep under way, or the last one: how many notifications it read, how many of them were missing, and how many
    -- were no notification of this app that the store had signed.
    read bigint NOT NULL DEFAULT 0,
    recorded bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    -- From where on something was refused that no later reading took; NULL where nothing is.
    refused_from timestamptz,
    refused_reason text,
    -- The end of the last window that was read to its end.
    completed_until timestamptz,
    completed_at timestamptz,
    last_error text,
    last_error_at timestamptz,
    -- Who works on it, and when it was last heard from, by the database's clock.
    holder text,
    heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, app, environment)
) WITH (fillfactor = 10);
