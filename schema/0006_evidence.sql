-- The signed bytes each event was taken from, apart from the log so that they can be erased. The parts name the
-- headers of table jws_header instead of repeating them, and those of the App Store are compressed: a byte 3, and a frame of
-- zstd with a dictionary that the program has.
CREATE TABLE evidence (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    parts bytea COMPRESSION lz4 NOT NULL,
    PRIMARY KEY (ledger_id, position)
);
-- Statistics would keep a sample of it after it is erased.
ALTER TABLE evidence ALTER COLUMN parts SET STATISTICS 0;

-- Whose evidence was erased: beside the events `forgotten`, which any role that appends can write, because the owner alone
-- may write here.
CREATE TABLE erasure (
    ledger_id integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (ledger_id, position)
);

-- Every JWS of one signer repeats the same header with the same three certificates; each is kept once.
CREATE TABLE jws_header (
    ledger_id integer NOT NULL,
    sha256 bytea NOT NULL,
    header bytea NOT NULL,
    PRIMARY KEY (ledger_id, sha256)
);
