-- What the ninth version of the schema adds: what people say of metrics and scenarios before a
-- conversation is played from them.

-- One act of one person. What was approved is known by its digest, so that what is written anew
-- waits anew; an undo takes back the newest act of the same person that still stands.
CREATE TABLE review (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    benchmark  TEXT NOT NULL,
    action     TEXT NOT NULL,           -- 'approve', 'reject', 'edit', 'generate' or 'undo'
    person     TEXT NOT NULL,
    account    TEXT NOT NULL,           -- user@host that it was done from
    reason     TEXT NOT NULL,           -- why; of 'generate' what the generator was told
    items      TEXT NOT NULL            -- JSON [{kind, id, digest, was}]: what it is about, and what
                                        -- stood before where that is replaced
) STRICT;
CREATE INDEX review_of_benchmark ON review (benchmark, seq);
