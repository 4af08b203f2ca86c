-- When the next request to the App Store Server API may be sent, in milliseconds since 1970 by the database's clock: one
-- row for each app, environment and kind of request, shared by all instances.
CREATE TABLE store_quota (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    next_at double precision NOT NULL,
    -- Until when the store itself takes no more; NULL where it never said so.
    blocked_until double precision,
    PRIMARY KEY (ledger_id, app, environment, kind)
) WITH (fillfactor = 10);

-- How far the store's own history of notifications was read, for each app and environment. A sweep reads a window part by
-- part, the oldest first, and each part page by page: [window_from, part_until) is the part under way, and everything
-- before it is known; `cursor` names the next page, and is written once a page is in the log. So a sweep that was killed
-- goes on where it stopped, and one that lost its lease to another can write nothing more.
CREATE TABLE store_sweep (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    -- NULL where no sweep is under way.
    window_from timestamptz,
    -- Where the sweep under way, or the last one, began.
    begun_from timestamptz,
    window_until timestamptz,
    part_until timestamptz,
    part_pages integer NOT NULL DEFAULT 0,
    cursor text COLLATE "C",
    -- How often reading failed, in a row.
    failures integer NOT NULL DEFAULT 0,
    -- Of the sweep under way, or the last one: how many notifications it read, how many of them were missing, and how many
    -- were no notification of this app that the store had signed.
    read bigint NOT NULL DEFAULT 0,
    recorded bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    -- Parts of it that could not be read and were given up.
    gaps integer NOT NULL DEFAULT 0,
    -- From where on something was refused or not read that no later reading took; NULL where nothing is.
    refused_from timestamptz,
    refused_reason text,
    -- Whether some of that could not be read at all, or is not believed.
    has_gap boolean NOT NULL DEFAULT false,
    -- Everything that the store sent before is known.
    completed_until timestamptz,
    -- The end of the last window that was read to its end, whether or not that is believed.
    read_until timestamptz,
    -- The end of the last sweep that went back two days or more, as one does each day.
    reread_at timestamptz,
    completed_at timestamptz,
    last_error text,
    last_error_at timestamptz,
    -- Who works on it, and when it was last heard from, by the database's clock.
    holder text,
    heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, app, environment)
) WITH (fillfactor = 10);

-- Of which original transactions the store is to be heard or asked, and when: a projection of the log, which any process
-- may derive again. Only those have a row of which something is expected.
CREATE TABLE store_watch (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    original_transaction_id text COLLATE "C" NOT NULL,
    -- 1 its next event is due, 2 a device disputes a revocation, 3 a grace period without its end.
    reason smallint NOT NULL,
    -- When the store's next event takes place, as far as known.
    expected_at timestamptz,
    -- By when the store must have spoken. Where it was asked and its word agrees with the ledger: when it is asked again.
    due_at timestamptz NOT NULL,
    -- When the store is asked next, unless it speaks before.
    next_try_at timestamptz NOT NULL,
    -- How often it was asked, and either told nothing new or failed.
    attempts integer NOT NULL DEFAULT 0,
    -- Why it could not be asked about this one last, and since when.
    last_error text,
    failing_since timestamptz,
    PRIMARY KEY (ledger_id, environment, original_transaction_id)
) WITH (fillfactor = 70);
CREATE INDEX store_watch_due ON store_watch (ledger_id, app, environment, due_at) INCLUDE (reason, expected_at);
CREATE INDEX store_watch_next ON store_watch (ledger_id, app, environment, next_try_at) WHERE reason = 1;
-- The few that are asked about at once.
CREATE INDEX store_watch_urgent ON store_watch (ledger_id, app, environment, next_try_at) WHERE reason <> 1;
-- The few that the store could not be asked about, though it could about others.
CREATE INDEX store_watch_failing ON store_watch (ledger_id, app, environment, failing_since)
    WHERE failing_since IS NOT NULL;

-- What is known of each app's stream of notifications, and who asks about what is overdue.
CREATE TABLE store_stream (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    watched_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When a notification was recorded last that the store delivered by itself, by the log.
    last_heard_at timestamptz,
    -- Of those that never arrived, and were found in the store's history: when the newest was sent, and the first since
    -- the stream was heard last.
    last_missed_at timestamptz,
    missed_since timestamptz,
    -- The newest instant at which the store had something to tell that never came: by a check that found it, a test
    -- notification that was not delivered, or the store's word that it knows no URL.
    unheard_at timestamptz,
    -- The test notification that was asked for last, why the last attempt to ask for one failed, and when the next may be
    -- made.
    canary_at timestamptz,
    canary_error text,
    canary_next_at timestamptz,
    -- Checks that were made, and how many of them found something.
    checked bigint NOT NULL DEFAULT 0,
    repaired bigint NOT NULL DEFAULT 0,
    check_error text,
    check_error_at timestamptz,
    holder text,
    heartbeat_at timestamptz,
    -- Since when the store's questions about refund requests are answered, NULL where they are not, and who does.
    answering_since timestamptz,
    answer_holder text,
    answer_heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, app, environment)
) WITH (fillfactor = 10);

-- Lists of transaction ids that are imported, or were: one row for each file, app and environment. `done` is written once
-- everything before it is in the log, so an import that was stopped goes on there.
CREATE TABLE store_import (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    file_sha256 bytea NOT NULL,
    total bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    -- Events that were recorded, ids that the store does not know, and statements that were not believed.
    recorded bigint NOT NULL DEFAULT 0,
    unknown bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    -- Ids before `done` that the store could not be asked about; the next run asks about them first.
    failed text[] COLLATE "C" NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at timestamptz,
    holder text,
    heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, app, environment, file_sha256)
);

-- What is still to be read from Stripe's API because an event of its says too little by itself: a projection of the log,
-- which any process may derive again. Whoever reads it moves `next_try_at` on first, so that a process that was killed is
-- followed by another; what was read is deleted.
CREATE TABLE web_lookup (
    ledger_id integer NOT NULL,
    environment smallint NOT NULL,
    -- The path of what is to be read again, or of an event that means nothing before more is read its position.
    subject text COLLATE "C" NOT NULL,
    -- The event that calls for it; of several the last.
    position bigint NOT NULL,
    -- Whether what the event says takes effect only with it.
    is_urgent boolean NOT NULL,
    -- Payments, charges and invoices by which another event may say what this one is about, whatever Stripe's API does.
    names text[] COLLATE "C" NOT NULL DEFAULT '{}',
    next_try_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- Why it could not be read last, and since when.
    last_error text,
    failing_since timestamptz,
    -- What only the operator can mend: `key`, `permission` with the request that the key may not make, or `object` where Stripe
    -- does not know what it told of.
    fault text,
    PRIMARY KEY (ledger_id, environment, subject)
) WITH (fillfactor = 70);
-- In the order in which they are read: after a long trouble many are due, of which each process takes a few at a time.
CREATE INDEX web_lookup_next
    ON web_lookup (ledger_id, environment, is_urgent DESC, (failing_since IS NOT NULL), next_try_at);
CREATE INDEX web_lookup_fault ON web_lookup (ledger_id, environment, fault, position) WHERE fault IS NOT NULL;

-- What is known of Stripe's webhooks in each environment, and how far its own list of events was read. A sweep reads a few
-- hours at a time, the oldest first, and writes `completed_until` once all of them are in the log; so one that was killed goes on
-- there, and one that lost its lease to another can write nothing more.
CREATE TABLE web_stream (
    ledger_id integer NOT NULL,
    environment smallint NOT NULL,
    -- When a webhook was recorded last, and when the newest event was made that was read from the list and never came; by
    -- the log.
    last_heard_at timestamptz,
    last_missed_at timestamptz,
    -- The event that came last by a webhook.
    last_heard_position bigint,
    -- Where the sweep under way, or the last one, began, and how many events it read, recorded, and could not read.
    begun_from timestamptz,
    read bigint NOT NULL DEFAULT 0,
    recorded bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    -- Everything that Stripe listed before is known.
    completed_until timestamptz,
    completed_at timestamptz,
    -- What the list of events, which holds thirty days, did not reach back to: from where on (NULL: from the beginning), until
    -- when, and when that was noticed last; NULL where there is nothing of the kind. It is so until the other lists are read.
    gap_from timestamptz,
    gap_until timestamptz,
    gap_since timestamptz,
    last_error text,
    last_error_at timestamptz,
    holder text,
    heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, environment)
) WITH (fillfactor = 10);

-- Readings of everything that Stripe's account of an environment holds: its lists, one after the other, each page by page, the
-- newest first. `cursor` and `cursor_created_at` name the last object of the last page that is in the log; so one that was killed
-- goes on there, and one that lost its lease to another can write nothing more.
CREATE TABLE web_import (
    ledger_id integer NOT NULL,
    environment smallint NOT NULL,
    -- The key of metadata under which somebody else wrote whose a purchase is; empty where nobody did.
    owner_metadata text COLLATE "C" NOT NULL,
    -- The SHA-256, in hex, of the ids in a team's own list of whose what is; empty without one. Whose they are is in no hash.
    owners text COLLATE "C" NOT NULL,
    -- Which list is read, from 0 on; as many as there are where all were.
    list smallint NOT NULL DEFAULT 0,
    cursor text COLLATE "C",
    cursor_created_at timestamptz,
    -- Objects that were read, events that were recorded, objects that say nothing new, checkouts that nobody went through and
    -- invoices that are not paid, objects that are about nothing that is kept here, such as cannot be read, such as are of
    -- somebody who was forgotten, and originals that belong to nobody.
    read bigint NOT NULL DEFAULT 0,
    recorded bigint NOT NULL DEFAULT 0,
    known bigint NOT NULL DEFAULT 0,
    unfinished bigint NOT NULL DEFAULT 0,
    unrelated bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    withheld bigint NOT NULL DEFAULT 0,
    unowned bigint NOT NULL DEFAULT 0,
    -- Objects that Stripe could not be asked about; they are read at the end, and by the next run.
    failed text[] COLLATE "C" NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at timestamptz,
    last_error text,
    last_error_at timestamptz,
    holder text,
    heartbeat_at timestamptz,
    PRIMARY KEY (ledger_id, environment, owner_metadata, owners)
) WITH (fillfactor = 10);
