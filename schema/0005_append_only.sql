-- The log's second net, beside privileges: its owner too cannot change it by mistake. ENABLE ALWAYS, so that no session
-- setting switches the triggers off.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on table % is refused: the event log is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();
ALTER TABLE event ENABLE ALWAYS TRIGGER event_append_only;

CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE event ENABLE ALWAYS TRIGGER event_no_truncate;

CREATE TRIGGER event_name_append_only BEFORE UPDATE OR DELETE ON event_name
FOR EACH ROW EXECUTE FUNCTION refuse_change();
ALTER TABLE event_name ENABLE ALWAYS TRIGGER event_name_append_only;

CREATE TRIGGER event_name_no_truncate BEFORE TRUNCATE ON event_name
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE event_name ENABLE ALWAYS TRIGGER event_name_no_truncate;
