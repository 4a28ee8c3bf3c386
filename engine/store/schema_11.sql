-- What the eleventh version of the schema adds.

-- Calls are recorded when they end. Before they are sent, the lease says what they may cost: of an
-- engine that was killed, it is all that is known of the calls that were under way.
ALTER TABLE lease ADD COLUMN open_usd REAL NOT NULL DEFAULT 0;

-- Calls that were cut off, so that nobody recorded what they cost; and what they are counted as.
CREATE TABLE unsettled (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    most_usd    REAL NOT NULL,          -- the most that they may have cost
    counted_usd REAL                    -- NULL where they were cut off; else it settles all such
                                        -- rows before it
) STRICT;
