CREATE INDEX event_transaction ON event (ledger_id, transaction_id) WHERE transaction_id IS NOT NULL;
