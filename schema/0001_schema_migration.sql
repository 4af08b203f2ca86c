-- Which migrations this database has seen, and what they said: a changed file is refused by name.
CREATE TABLE schema_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
