-- What the fourth version of the schema adds: whom one really spoke with. A gateway may answer for
-- the model that was asked with another one, and says so in its reply.

ALTER TABLE attempt ADD COLUMN served TEXT;       -- the model that the server names; NULL unsaid
ALTER TABLE attempt ADD COLUMN other INTEGER;     -- 1 where that is another than was asked
ALTER TABLE attempt ADD COLUMN route TEXT;        -- what a gateway said of the way there
ALTER TABLE attempt ADD COLUMN reported INTEGER;  -- 1 where the provider itself told cost_usd

-- The other model that gave it; NULL where none did, or nobody said so.
ALTER TABLE message ADD COLUMN served_by TEXT;
ALTER TABLE verdict ADD COLUMN served_by TEXT;

-- They are few, and asked for often.
CREATE INDEX attempt_other ON attempt (benchmark, target) WHERE other = 1;
CREATE INDEX message_other ON message (take) WHERE served_by IS NOT NULL;
CREATE INDEX verdict_other ON verdict (take) WHERE served_by IS NOT NULL;

-- What was summed up before did not count them.
DELETE FROM summary;
