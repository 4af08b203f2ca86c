-- The addresses and the secrets of endpoints, and what is sent along as Authorization, of which the log has the hashes alone: an address may name a secret of its
-- receiver's. A row is written before the event that makes it count, and a row without one counts for nothing. What an endpoint
-- signed with, where it was and what was sent along before is erased once nothing needs it.
CREATE TABLE webhook_secret (
    ledger_id integer NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    value bytea NOT NULL,
    -- What the clock said when it was first kept. The event that makes it count is dated later where the log is ahead of the clock.
    made_at timestamptz NOT NULL,
    -- When somebody last was about to make it count: what is younger than an append may take is not erased.
    kept_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger_id, endpoint, hash)
);

-- The endpoints that there are: what the log says of them, and beside it how far each has come.
CREATE TABLE webhook_endpoint (
    ledger_id integer NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    -- The event that made it; what came before is not told.
    position bigint NOT NULL,
    -- As table answer_scope names it.
    app text COLLATE "C" NOT NULL,
    -- NULL: both.
    environment smallint,
    -- The numbers of types of messages.
    types smallint[] NOT NULL,
    is_paused boolean NOT NULL DEFAULT false,
    -- When the next delivery is due, at the latest; NULL where none is.
    due_at timestamptz,
    -- What the database's clock said when something was last made due, now or later. Where that lies ahead, the clock was: what it
    -- made due later is due.
    clock_at timestamptz,
    -- Since when nothing was taken; NULL where the last attempt was.
    failing_since timestamptz,
    -- Whether the service's log says so.
    is_failure_told boolean NOT NULL DEFAULT false,
    -- Until when its receiver asked to be left alone; nothing is sent to it before.
    held_until timestamptz,
    -- Whether what waits for its next try is to be tried now: whoever takes what is due makes some of it due, page by page.
    is_hurried boolean NOT NULL DEFAULT false,
    PRIMARY KEY (ledger_id, endpoint)
) WITH (fillfactor = 50);
CREATE INDEX webhook_endpoint_due ON webhook_endpoint (ledger_id, due_at) WHERE due_at IS NOT NULL AND NOT is_paused;

-- What there is to tell, once for all endpoints. What names people goes when they are forgotten, and when it is old.
CREATE TABLE webhook_message (
    ledger_id integer NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    -- What receivers know it by: by chance, since a restored backup gives out its numbers again.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The numbers of MessageType.
    type smallint NOT NULL,
    -- Which endpoints may hear of it: those of this name.
    app text COLLATE "C" NOT NULL,
    -- NULL for what concerns none; 0 for what nobody hears of who is bound to one.
    environment smallint,
    -- Whose message it is, a number of table identity; 0 where it is nobody's.
    identity bigint NOT NULL,
    -- Up to where the log is believed.
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    -- Of a changed answer, or what became of a purchase: 1 an event, 2 a catalog, 3 time; and the entitlements before and after,
    -- as they are sent.
    cause smallint,
    before bytea COMPRESSION lz4,
    after bytea COMPRESSION lz4,
    -- Of what is neither a changed answer nor an event of the log: what is sent as `data`; of what became of a purchase the
    -- event, in which people are numbers; and of a changed answer of somebody who was forgotten their id as JSON, until it is
    -- delivered or given up.
    body bytea COMPRESSION lz4,
    PRIMARY KEY (ledger_id, number)
);
-- Statistics would keep a sample of the ids of whoever was forgotten.
ALTER TABLE webhook_message ALTER COLUMN body SET STATISTICS 0;
CREATE INDEX webhook_message_identity ON webhook_message (ledger_id, identity) WHERE identity <> 0;
CREATE INDEX webhook_message_position ON webhook_message (ledger_id, position);
CREATE INDEX webhook_message_at ON webhook_message (ledger_id, at);
CREATE INDEX webhook_message_id ON webhook_message (ledger_id, id);
-- The last that is told of whoever was forgotten: the 1 is `entitlements.changed`, which is else somebody's.
CREATE INDEX webhook_message_farewell ON webhook_message (ledger_id, at)
WHERE type = 1 AND identity = 0 AND body IS NOT NULL;

-- What is sent to whom. Of one customer one delivery is due at a time, so that an endpoint hears of each in order.
CREATE TABLE webhook_delivery (
    ledger_id integer NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    identity bigint NOT NULL,
    environment smallint NOT NULL,
    -- Of a changed answer, or what became of a purchase: counts 1, 2, 3 for each endpoint, customer and environment.
    sequence bigint,
    -- Of the same when it was found, and a millisecond after the one before at the least.
    told_at timestamptz,
    -- 1 waiting, 2 delivered, 3 given up, 4 withdrawn.
    state smallint NOT NULL DEFAULT 1,
    attempts integer NOT NULL DEFAULT 0,
    -- When it is sent next; NULL where another of the same customer comes first, or nothing is to be sent any more. Whoever sends
    -- it moves this on by a while, after which another may: so nothing is lost with a process.
    due_at timestamptz,
    -- Somebody is sending it, or died while doing so; else `due_at` is when it is tried again.
    is_taken boolean NOT NULL DEFAULT false,
    first_at timestamptz,
    last_at timestamptz,
    -- The HTTP status of the last answer, or why none came.
    status integer,
    failure text,
    PRIMARY KEY (ledger_id, endpoint, number)
) WITH (fillfactor = 70);
CREATE INDEX webhook_delivery_due ON webhook_delivery (ledger_id, endpoint, due_at) WHERE due_at IS NOT NULL;
-- The condition reads like that of no other index: were it `state = 1 AND identity <> 0`, the planner would take the one of all
-- that waits for as good while its statistics say that nothing does.
CREATE INDEX webhook_delivery_line ON webhook_delivery (ledger_id, endpoint, identity, environment, number)
WHERE CASE WHEN state = 1 THEN identity <> 0 ELSE false END;
CREATE INDEX webhook_delivery_withdrawn ON webhook_delivery (ledger_id, last_at) WHERE state = 4;
CREATE INDEX webhook_delivery_number ON webhook_delivery (ledger_id, number);
-- What waits and what was given up is counted, listed and sent again, beside much that was delivered.
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (ledger_id, endpoint, number) WHERE state = 1;
CREATE INDEX webhook_delivery_failed ON webhook_delivery (ledger_id, endpoint, number) WHERE state = 3;

-- How far each endpoint has come with each customer.
CREATE TABLE webhook_line (
    ledger_id integer NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    identity bigint NOT NULL,
    environment smallint NOT NULL,
    -- The last one given out.
    sequence bigint NOT NULL,
    -- How many deliveries are waiting.
    waiting bigint NOT NULL,
    -- What the last delivery has there.
    told_at timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (ledger_id, endpoint, identity, environment)
) WITH (fillfactor = 50);

-- Streams of the stores that are silent, and whether the endpoints were told of it.
CREATE TABLE webhook_stream (
    ledger_id integer NOT NULL,
    app text COLLATE "C" NOT NULL,
    environment smallint NOT NULL,
    source text COLLATE "C" NOT NULL,
    silent_since timestamptz NOT NULL,
    is_told boolean NOT NULL DEFAULT false,
    PRIMARY KEY (ledger_id, app, environment, source)
) WITH (fillfactor = 10);
