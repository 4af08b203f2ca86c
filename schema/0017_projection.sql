-- How far each projection has come. Rows are written with the views they speak of, in one commit.
CREATE TABLE projection (
    ledger_id integer NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    checkpoint bigint NOT NULL,
    PRIMARY KEY (ledger_id, name)
) WITH (fillfactor = 10);
