"""Numbers that can be published: pure functions over verdicts, each with its formula's source."""
