-- What each row is. One row is one fact, written once when it became true and never changed;
-- totals are queries. `seq` rises with every row of any table, so a watcher asks each table for
-- what lies beyond the last one it has seen. Times are milliseconds since 1970, UTC. JSON columns
-- hold objects or arrays, never text that somebody must parse twice.

-- One run of the pipeline, with the configuration it ran under (keys and headers left out).
CREATE TABLE run (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    benchmarks TEXT NOT NULL,           -- JSON array of names
    config     TEXT NOT NULL,           -- JSON
    version    TEXT NOT NULL,           -- of Crosswind
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL
) STRICT;

-- Something that happened to a run as a whole.
CREATE TABLE note (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    benchmark  TEXT NOT NULL,           -- '' where it concerns the whole run
    stage      TEXT,
    text       TEXT NOT NULL
) STRICT;

-- A row of work moved from one state to another. Its present state is its newest row.
CREATE TABLE state (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    benchmark  TEXT NOT NULL,
    stage      TEXT NOT NULL,
    unit       TEXT NOT NULL,           -- id of the metric, scenario or conversation
    target     TEXT,
    was        TEXT,                    -- NULL for a row that is new
    state      TEXT NOT NULL,
    reason     TEXT                     -- why it failed
) STRICT;
CREATE INDEX state_of_unit ON state (benchmark, stage, unit, seq);

-- A metric as a model wrote it, or as it stood in benchmark.yaml when it was replaced.
CREATE TABLE metric (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    benchmark  TEXT NOT NULL,
    metric_id  TEXT NOT NULL,
    name       TEXT NOT NULL,
    track      TEXT NOT NULL,
    definition TEXT NOT NULL,
    examples   TEXT NOT NULL,           -- JSON array
    source     TEXT NOT NULL,           -- 'model' or 'file'
    depends    TEXT                     -- JSON: what it was made from, name -> digest; NULL unknown
) STRICT;
CREATE INDEX metric_of_benchmark ON metric (benchmark, metric_id, seq);

-- A base scenario or a variant, as a model wrote it or as it stood in scenarios.json when it was
-- read. The newest row of an id counts; `removed` says that a person took it out of the file.
CREATE TABLE scenario (
    seq           INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    benchmark     TEXT NOT NULL,
    scenario_id   TEXT NOT NULL,
    metric_id     TEXT NOT NULL,
    persona       TEXT NOT NULL,
    user_goal     TEXT NOT NULL,
    latent_goal   TEXT NOT NULL,
    landmarks     TEXT NOT NULL,        -- JSON [{turn, instruction}]
    demographic   TEXT NOT NULL,        -- JSON {axis: value}
    system_prompt TEXT,                 -- of the target; NULL for the benchmark's
    extra         TEXT NOT NULL,        -- JSON: keys we do not know, kept
    source        TEXT NOT NULL,        -- 'model' or 'file'
    removed       INTEGER NOT NULL DEFAULT 0,
    depends       TEXT
) STRICT;
CREATE INDEX scenario_of_benchmark ON scenario (benchmark, scenario_id, seq);

-- One playing of a conversation begins. `seq` is its identity.
CREATE TABLE take (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    benchmark   TEXT NOT NULL,
    scenario_id TEXT NOT NULL,
    target      TEXT NOT NULL,
    sample      INTEGER NOT NULL,
    number      INTEGER NOT NULL,       -- 0, 1, …
    scenario    INTEGER REFERENCES scenario (seq),
    user_model  TEXT NOT NULL,          -- label
    model       TEXT NOT NULL,          -- label of the target
    scripted    INTEGER NOT NULL,       -- whether a script played any part of it
    depends     TEXT,
    UNIQUE (benchmark, scenario_id, target, sample, number)
) STRICT;

-- That playing came to an end. A take without such a row was interrupted, and one whose newest row
-- says that it is not finished failed; both can be continued where they stand.
CREATE TABLE take_end (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    take        INTEGER NOT NULL REFERENCES take (seq),
    stop_reason TEXT NOT NULL,
    finished    INTEGER NOT NULL,       -- 1 where it may be judged
    detail      TEXT                    -- what failed, in words
) STRICT;
CREATE INDEX end_of_take ON take_end (take, seq);

-- One message, complete.
CREATE TABLE message (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    take       INTEGER NOT NULL REFERENCES take (seq),
    turn       INTEGER NOT NULL,        -- 1-based
    speaker    TEXT NOT NULL,           -- 'user' or 'assistant'
    text       TEXT NOT NULL,           -- as received
    thought    TEXT,                    -- of the user model; shown to people, to no model
    landmark   TEXT,                    -- the instruction that the user model was given
    done       INTEGER NOT NULL DEFAULT 0,  -- the user model said that it is finished
    finish     TEXT NOT NULL,           -- how the reply came to its end
    reasoning  TEXT,                    -- what a model thought aloud; shown to people, to no model
    digest     BLOB NOT NULL,           -- blake2b-16 of speaker and text: damage shows
    UNIQUE (take, turn, speaker)
) STRICT;

-- One answer on one take by one judge in one pass. The newest of each judge and pass counts.
CREATE TABLE verdict (
    seq            INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL,
    take           INTEGER NOT NULL REFERENCES take (seq),
    metric_id      TEXT NOT NULL,
    track          TEXT NOT NULL,
    judge          TEXT NOT NULL,       -- the model's label, or a person's name
    source         TEXT NOT NULL,       -- 'model' or 'human'
    number         INTEGER NOT NULL,    -- pass, 0-based
    present        INTEGER,
    passed         INTEGER,
    unscored       TEXT,                -- why it cannot be used
    justification  TEXT NOT NULL,
    quotes         TEXT NOT NULL,       -- JSON [{text, turn}]: turn is null where it is not found
    counted_before INTEGER,             -- what counted for the conversation before this row
    counted        INTEGER,             -- what counts from this row on
    depends        TEXT
) STRICT;
CREATE INDEX verdict_of_take ON verdict (take, seq);

-- One attempt at one call to a model, whether it gave an answer or not.
CREATE TABLE attempt (
    seq           INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    benchmark     TEXT NOT NULL,
    stage         TEXT NOT NULL,
    unit          TEXT NOT NULL,
    target        TEXT,
    role          TEXT NOT NULL,
    model         TEXT NOT NULL,        -- label
    outcome       TEXT NOT NULL,        -- 'answer', or the class of what went wrong
    status        INTEGER,              -- of HTTP
    duration_ms   INTEGER NOT NULL,
    first_token_ms INTEGER,             -- NULL where none came, or it is not known
    input_tokens  INTEGER,              -- all of the input; NULL unknown
    cached_tokens INTEGER,
    output_tokens INTEGER,
    cost_usd      REAL,                 -- NULL unknown, never 0 for that
    detail        TEXT
) STRICT;
CREATE INDEX attempt_of_stage ON attempt (benchmark, stage, target);

-- What a model turned out not to take. The newest row of a model counts.
CREATE TABLE learned (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    model      TEXT NOT NULL,           -- its address and its name there
    step       TEXT NOT NULL,           -- how an answer of a given shape is asked for
    dropped    TEXT NOT NULL            -- JSON array: parameters that are left out
) STRICT;
CREATE INDEX learned_of_model ON learned (model, seq);

-- A mirrored file as it was last written or read; not a fact. Another digest on disk means that a
-- person edited it.
CREATE TABLE mirrored (
    path   TEXT PRIMARY KEY,            -- relative to the workspace
    at     INTEGER NOT NULL,
    digest TEXT NOT NULL,
    seq    INTEGER NOT NULL             -- rows beyond it are not in the file yet
) STRICT, WITHOUT ROWID;
