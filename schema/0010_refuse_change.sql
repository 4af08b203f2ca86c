-- The log's second net, beside privileges: also its owner cannot change it by mistake.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on the event log is refused: it is append-only', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
