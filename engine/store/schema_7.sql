-- What the seventh version of the schema adds: what people label.

-- Conversations that a person is to label without knowing which they are.
CREATE TABLE label_sample (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    benchmark  TEXT NOT NULL,
    person     TEXT NOT NULL,
    account    TEXT NOT NULL,           -- user@host that it was drawn for
    seed       TEXT NOT NULL,
    items      TEXT NOT NULL            -- JSON [{take, metric_id, stratum, inclusion}], in order
) STRICT;
CREATE INDEX label_sample_of_benchmark ON label_sample (benchmark, person, seq);

-- A person's verdict may be a label: NULL where it is none. What it stands for is said here too, so
-- that it can be read without its sample.
ALTER TABLE verdict ADD COLUMN label_sample INTEGER REFERENCES label_sample (seq);
ALTER TABLE verdict ADD COLUMN stratum TEXT;         -- of conversations, from which it was drawn
ALTER TABLE verdict ADD COLUMN inclusion REAL;       -- probability with which it was drawn
ALTER TABLE verdict ADD COLUMN confidence INTEGER;   -- 1 to 3
ALTER TABLE verdict ADD COLUMN seconds REAL;         -- that it took
ALTER TABLE verdict ADD COLUMN adjudicates INTEGER;  -- 1 where it settles what people disagreed on

-- They are few, and asked for often.
CREATE INDEX verdict_human ON verdict (take) WHERE source = 'human';
