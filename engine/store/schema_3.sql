-- What the third version of the schema adds: nothing that is true, only ways to find it quickly.

-- What all rows up to `seq` add up to. It can be made anew from them at any time.
CREATE TABLE summary (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    seq      INTEGER NOT NULL,
    progress TEXT NOT NULL              -- JSON
) STRICT;

-- Ids are looked for by their beginning, in all benchmarks at once.
CREATE INDEX metric_of_id ON metric (metric_id, benchmark);
CREATE INDEX metric_of_scenario ON scenario (metric_id, benchmark);
CREATE INDEX scenario_of_id ON scenario (scenario_id, benchmark, seq, removed);
CREATE INDEX take_of_id ON take (
    scenario_id || '__' || target || CASE WHEN sample THEN '__s' || sample ELSE '' END, benchmark
);

-- Failures are few, and asked for often.
CREATE INDEX state_failed ON state (seq) WHERE state = 'failed';
