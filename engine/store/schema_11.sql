-- What the eleventh version of the schema adds.

-- What counts and why the rest does not, as it was decided last from files and rows: no facts, the
-- writer replaces them when either has changed. This table says what they were made from.
CREATE TABLE counts_as_of (
    benchmark TEXT PRIMARY KEY,
    at        INTEGER NOT NULL,
    seq       INTEGER NOT NULL,         -- of rows beyond it nothing is decided yet
    digest    TEXT NOT NULL             -- of files, configuration and rows
) STRICT, WITHOUT ROWID;

-- What was decided of a take.
CREATE TABLE take_counts (
    take      INTEGER PRIMARY KEY,
    benchmark TEXT NOT NULL,
    why_not   TEXT,                     -- why it does not count; NULL where it does
    passed    INTEGER,                  -- what its verdicts come to; NULL where unscored
    unscored  TEXT,                     -- why
    stale     TEXT,                     -- what has changed since, which counts all the same
    verdict   INTEGER                   -- the one that says so
) STRICT;

-- Only verdicts that do not count although their take does.
CREATE TABLE verdict_counts (
    verdict   INTEGER PRIMARY KEY,
    benchmark TEXT NOT NULL,
    why_not   TEXT NOT NULL
) STRICT;

DROP VIEW pass_rates;
DROP VIEW verdicts_that_count;
DROP VIEW transcripts;
DROP VIEW conversations;

-- Each conversation in its newest take that was played to its end, whether it counts or not.
CREATE VIEW conversations AS
SELECT
    t.benchmark AS benchmark,
    t.scenario_id || '__' || t.target || CASE WHEN t.sample THEN '__s' || t.sample ELSE '' END
        AS conversation,
    CASE WHEN c.take IS NOT NULL AND c.why_not IS NULL THEN 1 ELSE 0 END AS counts,
    CASE WHEN c.take IS NULL THEN 'not decided yet' ELSE c.why_not END AS why_not,
    c.passed AS passed,
    c.unscored AS unscored,
    c.stale AS stale,
    t.target AS target,
    t.model AS model,
    s.metric_id AS metric,
    t.scenario_id AS scenario,
    -- without the number of its variant
    CASE
        WHEN t.scenario_id <> rtrim(t.scenario_id, '0123456789')
            AND rtrim(t.scenario_id, '0123456789') LIKE '%\_v' ESCAPE '\'
        THEN substr(t.scenario_id, 1, length(rtrim(t.scenario_id, '0123456789')) - 2)
        ELSE t.scenario_id
    END AS base_scenario,
    s.demographic AS person,
    t.sample AS sample,
    (SELECT count(*) FROM message m WHERE m.take = t.seq AND m.speaker = 'assistant') AS turns,
    e.stop_reason AS ended,
    t.user_model AS user_model,
    t.scripted AS scripted,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.at / 1000, 'unixepoch') AS began_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', e.at / 1000, 'unixepoch') AS ended_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.at / 1000, 'unixepoch') AS as_of,
    t.seq AS take
FROM take t
JOIN take_end e ON e.take = t.seq AND e.finished = 1
LEFT JOIN scenario s ON s.seq = t.scenario
LEFT JOIN take_counts c ON c.take = t.seq
LEFT JOIN counts_as_of a ON a.benchmark = t.benchmark
WHERE NOT EXISTS (
    SELECT 1 FROM take n JOIN take_end f ON f.take = n.seq AND f.finished = 1
    WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id
        AND n.target = t.target AND n.sample = t.sample AND n.number > t.number
);

-- What was said in them, a message a row.
CREATE VIEW transcripts AS
SELECT
    c.benchmark AS benchmark,
    c.conversation AS conversation,
    c.counts AS counts,
    c.why_not AS why_not,
    m.turn AS turn,
    m.speaker AS speaker,
    m.text AS text,
    m.landmark AS landmark,
    m.thought AS thought,
    strftime('%Y-%m-%dT%H:%M:%SZ', m.at / 1000, 'unixepoch') AS said_at,
    c.take AS take
FROM conversations c
JOIN message m ON m.take = c.take;

-- What counts for each that was judged, in the words of the newest judge who says so.
CREATE VIEW verdicts_that_count AS
SELECT
    t.benchmark AS benchmark,
    t.scenario_id || '__' || t.target || CASE WHEN t.sample THEN '__s' || t.sample ELSE '' END
        AS conversation,
    t.target AS target,
    v.metric_id AS metric,
    v.track AS track,
    CASE c.passed WHEN 1 THEN 'pass' WHEN 0 THEN 'fail' ELSE 'unscored' END AS outcome,
    c.passed AS passed,
    c.unscored AS unscored,
    c.stale AS stale,
    v.judge AS judge,
    v.justification AS justification,
    v.quotes AS quotes,
    (SELECT count(DISTINCT judge) FROM verdict WHERE take = c.take) AS judges,
    strftime('%Y-%m-%dT%H:%M:%SZ', v.at / 1000, 'unixepoch') AS judged_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.at / 1000, 'unixepoch') AS as_of,
    c.take AS take
FROM take_counts c
JOIN counts_as_of a ON a.benchmark = c.benchmark
JOIN take t ON t.seq = c.take
JOIN verdict v ON v.seq = c.verdict
WHERE c.why_not IS NULL;

-- Passes among what was scored, by target and metric.
CREATE VIEW pass_rates AS
SELECT
    benchmark,
    target,
    track,
    metric,
    sum(passed) AS passed,
    count(passed) AS scored,
    count(*) - count(passed) AS unscored,
    avg(passed) AS pass_rate,
    max(as_of) AS as_of
FROM verdicts_that_count
GROUP BY benchmark, target, track, metric;

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

-- Replies that a provider's filter withheld, or that its model refused: few, and counted beside each
-- target, so they are found without reading any text.
CREATE INDEX message_withheld ON message (take) WHERE finish IN ('content_filter', 'refusal');

-- The last answer of a model that could not be used, however often it was asked again: its row of
-- work failed with it.
CREATE TABLE unusable (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    benchmark TEXT NOT NULL,
    stage     TEXT NOT NULL,
    unit      TEXT NOT NULL,
    role      TEXT NOT NULL,
    model     TEXT NOT NULL,            -- label
    fault     TEXT NOT NULL,            -- why it could not be used
    answer    TEXT NOT NULL             -- as received, its beginning
) STRICT;

-- Calls that were about to be submitted to a provider as a batch, written before that: an engine may
-- be killed before it learns whether the provider has it.
CREATE TABLE batch (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    key      TEXT NOT NULL UNIQUE,      -- our own name for it, which the provider is told
    place    TEXT NOT NULL,             -- the address of the model and its name there
    model    TEXT NOT NULL,             -- label
    asks     TEXT NOT NULL,             -- JSON: a digest of each call, in order
    most_usd REAL NOT NULL              -- the most that it may cost
) STRICT;

-- A batch was found to be at the provider, or not to be there.
CREATE TABLE batch_event (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    batch       TEXT NOT NULL,          -- its key
    provider_id TEXT,                   -- NULL where it is not there and never will be
    until       INTEGER                 -- when the provider ends it at the latest
) STRICT;

-- What became of a call of a batch is stored: written together with what it came to, so that it is
-- asked for once.
CREATE TABLE batch_taken (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    call TEXT NOT NULL UNIQUE           -- the key of its batch, a hyphen, and its place there
) STRICT;

-- Which parameters of an answered call were left out, as its server had refused them; NULL for most.
ALTER TABLE attempt ADD COLUMN left_out TEXT;
CREATE INDEX attempt_left_out ON attempt (benchmark) WHERE left_out IS NOT NULL;

-- What the digests of models and of system prompts in `depends` stand for: stored when a run begins,
-- once for each, so that what was asked for stays known when the configuration has changed.
CREATE TABLE model_settings (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    digest   TEXT NOT NULL,
    settings TEXT NOT NULL              -- JSON object
) STRICT;
