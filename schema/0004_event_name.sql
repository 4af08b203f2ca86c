-- Whom the log's events name: leads from a customer to their original transactions and to what was said of them, and from
-- what Stripe calls a part of a purchase, and from transactions that came several in one event, to the events that say of
-- which original. It is written with the events and is as unchangeable as they are; `verify` derives every row again from its
-- event.
CREATE TABLE event_name (
    ledger_id integer NOT NULL,
    -- The number of table identity; 0 for an event with evidence that names nobody and is about no original transaction, and
    -- for parts of purchases.
    identity bigint NOT NULL,
    -- 1 production, 2 sandbox; 0 for what holds in both.
    environment smallint NOT NULL,
    -- 0 the owner that a statement states, 1 an app transaction beside an account token: of these two kinds only the
    -- first event about an original transaction has a row. 2 links, grants, claims and transfers, 3 reports about
    -- somebody (conflicts, drift, forgetting, consent withdrawn), owners that Stripe names behind the first, and events of
    -- identity 0: of these every event has one, and also of 4, a part of a purchase.
    kind smallint NOT NULL,
    -- Empty where the event is about none; of kind 4 the part's id.
    original_transaction_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (ledger_id, identity, environment, kind, original_transaction_id, position)
);
