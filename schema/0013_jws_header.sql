-- Every JWS of one signer repeats the same header with the same three certificates; each is kept once.
CREATE TABLE jws_header (
    ledger_id integer NOT NULL,
    sha256 bytea NOT NULL,
    header bytea NOT NULL,
    PRIMARY KEY (ledger_id, sha256)
);
