-- The few events with evidence that name nobody and are about no original transaction, such as a withdrawn consent:
-- whoever is forgotten may stand in their signed bytes.
CREATE INDEX event_nameless ON event (ledger_id, position)
WHERE identity IS NULL AND original_transaction_id IS NULL AND evidence_sha256 IS NOT NULL;
