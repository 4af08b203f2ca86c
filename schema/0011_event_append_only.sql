-- Row triggers reach every partition, present and future; ALWAYS, so that no session setting switches them off.
CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();
ALTER TABLE event ENABLE ALWAYS TRIGGER event_append_only;

CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE event ENABLE ALWAYS TRIGGER event_no_truncate;
