-- What people and programs said of a customer: links and grants. They are few, and nobody with ten thousand purchases
-- should make whoever looks for them read those.
CREATE INDEX event_word ON event (ledger_id, identity, position) WHERE type IN ('linked', 'granted', 'grant_revoked');
