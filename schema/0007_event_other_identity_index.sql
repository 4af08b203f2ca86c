CREATE INDEX event_other_identity ON event (ledger_id, other_identity, position) WHERE other_identity IS NOT NULL;
