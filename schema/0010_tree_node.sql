-- The tree over the log (RFC 6962, section 2.1), in which every event is a leaf: the roots of its complete subtrees of
-- 16 leaves (level 1), of 16 such subtrees (level 2), and so on. What lies below level 1 is hashed from the log itself.
--
-- Everything here follows from the log. It is written behind it, as far as row 'tree' of table projection says, and what
-- is missing is computed.
CREATE TABLE tree_node (
    ledger_id integer NOT NULL,
    level smallint NOT NULL,
    -- Counts the subtrees of a level from the left, from 0.
    number bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (ledger_id, level, number)
);
