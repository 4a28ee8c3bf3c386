-- What the second version of the schema adds. Neither table holds facts.

-- Whose the store is: the one engine that writes it. No row where none does; one that is left over
-- says that its engine did not end well.
CREATE TABLE lease (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    engine    TEXT NOT NULL,            -- a name that it gave itself, by chance
    pid       INTEGER NOT NULL,
    host      TEXT NOT NULL,
    boot      TEXT NOT NULL,            -- of the machine, from when it was started; '' unknown
    space     TEXT NOT NULL,            -- within which pid and began mean something
    began     TEXT NOT NULL,            -- when the process began, in the system's words
    since     INTEGER NOT NULL,
    heartbeat INTEGER NOT NULL,         -- when it last said that it is there
    beats     INTEGER NOT NULL,         -- how often it has said so: clocks may be set
    place     TEXT NOT NULL             -- device and inode of this file: a copy is nobody's
) STRICT;

-- A mirrored file of which a person said that it stays as they wrote it.
CREATE TABLE kept (
    path   TEXT PRIMARY KEY,            -- relative to the workspace
    at     INTEGER NOT NULL,
    digest TEXT NOT NULL                -- as it was then: edited again, it is asked about again
) STRICT, WITHOUT ROWID;
