-- The few events that change the catalog.
CREATE INDEX event_catalog ON event (ledger_id, position) WHERE type = 'catalog_applied';
