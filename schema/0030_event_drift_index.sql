-- What a customer's devices believed otherwise, newest last.
CREATE INDEX event_drift ON event (ledger_id, identity, position) WHERE type = 'drift';
