-- The one place where identities stand in clear: customer ids, account tokens (a customer id in lower case) and app
-- transaction ids (`apple:<id>`). Erasing a row forgets the person; the log keeps only the number.
CREATE TABLE identity (
    ledger_id integer NOT NULL,
    identity bigint NOT NULL,
    -- 16 random bytes. The log commits to SHA-256(salt || value): with the salt erased, nobody can find out the value by
    -- trying.
    salt bytea NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (ledger_id, identity),
    UNIQUE (ledger_id, value)
);
-- Statistics would keep a sample of both after they are erased, and with a salt an id can be found out by trying. None are
-- needed: ids are looked up one by one.
ALTER TABLE identity ALTER COLUMN salt SET STATISTICS 0, ALTER COLUMN value SET STATISTICS 0;
