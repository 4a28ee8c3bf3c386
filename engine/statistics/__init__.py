"""Statistics for publication: pure functions over verdicts, with the sources of their formulas."""
