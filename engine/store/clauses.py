"""Parts of questions that several of them share. `t` is the take, `v` the newest verdict on it."""

from __future__ import annotations

from typing import Final

from engine.jury import TIED

CONV_ID: Final = (
    "scenario_id || '__' || target || CASE WHEN sample THEN '__s' || sample ELSE '' END"
)
"""As it is written for an index, which knows no other form."""
NEWER_FINISHED: Final = (
    "SELECT 1 FROM take n JOIN take_end f ON f.take = n.seq AND f.finished = 1 "
    "WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id "
    "AND n.target = t.target AND n.sample = t.sample AND n.number > t.number"
)
TURNS: Final = "(SELECT count(*) FROM message m WHERE m.take = t.seq AND m.speaker = 'assistant')"


def outcome(said: str = "v") -> str:
    """What counts, as `passed` and `unscored`; the reason is that of another verdict, if named."""
    return (
        "v.counted AS passed, CASE WHEN v.counted IS NULL "
        f"THEN coalesce(nullif({said}.unscored, ''), '{TIED}') END AS unscored"
    )
