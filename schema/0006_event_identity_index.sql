-- From a customer to the original transactions that might be theirs, without touching the table.
CREATE INDEX event_identity ON event (ledger_id, identity, environment, original_transaction_id, position)
WHERE identity IS NOT NULL;
