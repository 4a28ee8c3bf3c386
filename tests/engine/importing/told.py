"""All that a store says, fact by fact, so that two of them can be held against each other.

What files cannot bring back is left out here, and nothing else:

- runs, notes, and what models turned out not to take: they are of a workspace, not of a benchmark;
- the order in which things were written, and so what counted between two verdicts on different
  takes; what counts in the end is compared;
- how a row of work got to where it stands, and rows that wait or were under way;
- ends of a take before its last one, where it failed and was continued;
- earlier versions of a scenario that nothing in the files was played from;
- what belongs to targets that the configuration does not name: they have no folder.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

_TAKE: Final = "t.benchmark, t.scenario_id, t.target, t.sample, t.number"
_SCENARIO: Final = (
    "s.benchmark, s.scenario_id, s.metric_id, s.persona, s.user_goal, s.latent_goal, s.landmarks,"
    " s.demographic, s.system_prompt, s.extra, s.source, s.depends"
)
_OF_TAKE: Final = "JOIN take t ON t.seq = x.take"
FACTS: Final = {
    "metric": "SELECT benchmark, metric_id, name, track, definition, examples, holds, source,"
    " depends, at FROM metric",
    "scenario": f"SELECT {_SCENARIO}, s.removed, s.at FROM scenario s WHERE seq ="
    " (SELECT max(seq) FROM scenario n WHERE n.benchmark = s.benchmark"
    "  AND n.scenario_id = s.scenario_id)",
    "take": f"SELECT {_TAKE}, t.user_model, t.model, t.scripted, t.depends, t.at FROM take t",
    "what a take was played from": "SELECT t.benchmark, t.scenario_id, t.target, t.sample,"
    " t.number, s.persona, s.user_goal, s.latent_goal, s.landmarks, s.demographic, s.system_prompt"
    " FROM take t JOIN scenario s ON s.seq = t.scenario",
    "end of a take": f"SELECT {_TAKE}, x.stop_reason, x.finished, x.detail, x.at FROM take_end x"
    f" {_OF_TAKE} WHERE x.seq = (SELECT max(seq) FROM take_end WHERE take = x.take)",
    "message": f"SELECT {_TAKE}, x.turn, x.speaker, x.text, x.thought, x.landmark, x.done,"
    f" x.finish, x.reasoning, x.digest, x.served_by, x.at FROM message x {_OF_TAKE}",
    "verdict": f"SELECT {_TAKE}, (SELECT count(*) FROM verdict v WHERE v.take = x.take"
    "  AND v.seq < x.seq), x.metric_id, x.track, x.judge, x.source, x.number, x.present, x.passed,"
    f" x.unscored, x.justification, x.quotes, x.marks, x.depends, x.served_by, x.at"
    f" FROM verdict x {_OF_TAKE}",
    "check": f"SELECT {_TAKE}, x.kind, x.model, x.answers, x.unusable, x.depends, x.served_by, x.at"
    f" FROM take_check x {_OF_TAKE}",
    "review": "SELECT benchmark, action, person, account, reason, items, at FROM review",
    "what counts": "SELECT t.benchmark, t.scenario_id, t.target, t.sample, x.track, x.counted,"
    f" max(x.seq) * 0 FROM verdict x {_OF_TAKE}"
    " GROUP BY t.benchmark, t.scenario_id, t.target, t.sample, x.track",
    "attempt": "SELECT benchmark, stage, unit, target, role, model, outcome, status, duration_ms,"
    " first_token_ms, input_tokens, cached_tokens, output_tokens, cost_usd, detail, at,"
    " served, other, route, reported, left_out FROM attempt",
    "settings": "SELECT DISTINCT t.benchmark, m.digest, m.settings FROM model_settings m, take t"
    " WHERE EXISTS (SELECT 1 FROM (SELECT t.depends UNION ALL SELECT depends FROM verdict"
    "  WHERE take = t.seq UNION ALL SELECT depends FROM take_check WHERE take = t.seq) x,"
    "  json_each(x.depends) d WHERE d.value = m.digest)",
    "state": "SELECT benchmark, stage, unit, target, state, reason, at FROM state s"
    " WHERE state IN ('done', 'failed', 'dropped') AND seq = (SELECT max(seq) FROM state n"
    "  WHERE n.benchmark = s.benchmark AND n.stage = s.stage AND n.unit = s.unit)",
}
"""By kind: the rows, without their `seq`."""


def differences(one: Path, other: Path) -> Iterator[str]:
    """What one of two stores says and the other does not, in words; nothing where both say the
    same."""
    with closing(sqlite3.connect(one)) as first, closing(sqlite3.connect(other)) as second:
        names = sorted({name for store in (first, second) for name in _benchmarks(store)})
        for name in names:
            for kind, question in FACTS.items():
                within = f"SELECT * FROM ({question}) WHERE benchmark = ?"
                said = Counter(first.execute(within, (name,)))
                said.subtract(Counter(second.execute(within, (name,))))
                for fact, times in said.items():
                    if times:
                        yield f"{kind}, {'lost' if times > 0 else 'new'}: {fact}"


def _benchmarks(store: sqlite3.Connection) -> list[str]:
    rows = store.execute("SELECT benchmark FROM take UNION SELECT benchmark FROM scenario")
    return [row[0] for row in rows]


def counted(store: Path) -> dict[str, int]:
    """How many facts of each kind there are."""
    with closing(sqlite3.connect(store)) as connection:
        return {
            kind: connection.execute(f"SELECT count(*) FROM ({question})").fetchone()[0]
            for kind, question in FACTS.items()
        }
