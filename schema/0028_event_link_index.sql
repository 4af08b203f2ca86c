-- From a customer to those who were linked to them.
CREATE INDEX event_link ON event (ledger_id, other_identity, position) WHERE type = 'linked';
