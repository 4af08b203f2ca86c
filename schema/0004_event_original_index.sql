-- One original transaction's events in order; also tells whether a view row is the log's latest.
CREATE INDEX event_original ON event (ledger_id, environment, original_transaction_id, position)
WHERE original_transaction_id IS NOT NULL;
