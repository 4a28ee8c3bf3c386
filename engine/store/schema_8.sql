-- What the eighth version of the schema adds: what checks say of a finished conversation. They are
-- cheap calls beside the evaluator's, and count for no pass rate.

-- The newest of a take and kind that can be used counts.
CREATE TABLE take_check (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    take       INTEGER NOT NULL REFERENCES take (seq),
    kind       TEXT NOT NULL,           -- 'groups' or 'landmarks'
    model      TEXT NOT NULL,           -- label of who was asked; '' where there was nothing to ask
    answers    TEXT NOT NULL,           -- JSON [{about, turn, said, holds, quote}]
    unusable   TEXT,                    -- why no answer came that can be used
    depends    TEXT,
    served_by  TEXT
) STRICT;
CREATE INDEX check_of_take ON take_check (take, kind, seq);
