-- Makes the partitions that hold positions up to `upto` and the two after. It runs as its owner, so that the serving
-- role needs no right to create anything; so it names its tables by schema, and makes no more than the log will soon
-- need. A partition is made apart and then attached, which blocks no reader and no append; there is no default partition,
-- because rows in one would forbid attaching.
CREATE FUNCTION ensure_partitions(upto bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    size CONSTANT bigint := 5000000;
    farthest CONSTANT bigint := 50000000;
    made integer := 0;
    parent text;
    part text;
    number bigint;
BEGIN
    IF upto > (SELECT max(position) + farthest FROM public.ledger_head) THEN
        RAISE EXCEPTION 'partitions are made for at most % positions ahead', farthest
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- One at a time; the lock is gone with the transaction.
    PERFORM pg_advisory_xact_lock(hashtext('rightful.ensure_partitions'));
    FOR number IN 0 .. greatest(upto, 1) / size + 2 LOOP
        FOREACH parent IN ARRAY ARRAY['event', 'evidence'] LOOP
            part := format('%s_p%s', parent, lpad(number::text, 6, '0'));
            -- By what is attached: a table that somebody else gave that name must not pass for the partition.
            CONTINUE WHEN EXISTS (
                SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
                WHERE inhparent = format('public.%I', parent)::regclass AND relname = part);
            EXECUTE format(
                'CREATE TABLE public.%I (LIKE public.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
            EXECUTE format(
                'ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%s) TO (%s)',
                parent, part, number * size, (number + 1) * size);
            IF parent = 'event' THEN
                EXECUTE format(
                    'CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON public.%I '
                    'FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change()', part);
                EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER event_no_truncate', part);
                EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER event_append_only', part);
            END IF;
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION ensure_partitions(bigint) FROM PUBLIC;

SELECT ensure_partitions(1);
