-- What was said of an original transaction's owner beside its own statements.
CREATE INDEX event_ownership ON event (ledger_id, environment, original_transaction_id, type, position)
WHERE type IN ('claimed', 'transferred', 'transfer_undone', 'ownership_conflict');
