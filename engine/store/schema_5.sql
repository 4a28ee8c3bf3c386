-- What the fifth version of the schema adds: whether the user model did its part.

-- JSON [{kind, turn, detail}] of a take that was played to its end, as the rules of that day found
-- them; NULL where nobody looked.
ALTER TABLE take_end ADD COLUMN user_faults TEXT;

-- They are few, and asked for often.
CREATE INDEX take_end_faulty ON take_end (take) WHERE user_faults <> '[]';
