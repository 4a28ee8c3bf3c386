-- What the sixth version of the schema adds: when a behaviour must hold, and what a judge said of
-- each reply.

ALTER TABLE metric ADD COLUMN holds TEXT NOT NULL DEFAULT 'anywhere';  -- its `when`

-- JSON [true, …], one for each reply; NULL where the judge was not asked for them.
ALTER TABLE verdict ADD COLUMN marks TEXT;
