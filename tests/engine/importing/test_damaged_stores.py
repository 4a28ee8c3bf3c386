"""A store that came to harm is mended, or a sentence says how to make it again: a few of many
kinds, of which `tests/long` tries a hundred and more."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.benchmark import Stage
from engine.pipeline.order import Rewriting
from engine.service import hosting
from tests.damaged import kinds
from tests.damaged.kinds import Damage
from tests.damaged.sound import Sound, play
from tests.damaged.trial import Outcome, said, tried
from tests.engine.importing.places import everything, make_place

CHOSEN: list[tuple[Damage, int, bool, Outcome]] = [
    (kinds.flips, 0, True, Outcome.MENDED),
    (kinds.pages_overwritten, 2, False, Outcome.MENDED),
    (kinds.something_else, 0, True, Outcome.TOLD),
    (kinds.log_cut, 2, False, Outcome.MENDED),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return play(tmp_path_factory.mktemp("sound"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "seed", "with_files", "expected"),
    CHOSEN,
    ids=[f"{kind.__name__}-{seed}" for kind, seed, _, _ in CHOSEN],
)
def test_a_damaged_store_is_noticed_and_mended(
    sound: Sound, tmp_path: Path, kind: Damage, seed: int, with_files: bool, expected: Outcome
) -> None:
    trial = tried(sound, kind, seed, tmp_path / "place", with_files=with_files)
    assert trial.outcome is expected, str(trial)


def _last_reply_gone(path: Path, chance: object) -> str:
    del chance
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "DELETE FROM message WHERE seq = "
            "(SELECT max(seq) FROM message WHERE turn = 3 AND speaker = 'assistant')"
        )
        connection.commit()
    return "what was answered last is gone"


@pytest.mark.exhaustive
def test_a_message_that_is_gone_is_not_taken_out_of_the_files_too(
    sound: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor by a run whose first look at the store had no time to come so far."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    trial = tried(sound, _last_reply_gone, 0, tmp_path / "place")
    assert trial.outcome is Outcome.MENDED, str(trial)


def test_a_base_without_variants_is_in_a_store_that_is_made_from_the_files(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place")
    until = ("run", "--headless", "--yes", "--until", "gen_scenarios")
    assert said(place, *until).code == 0
    file = place.root / "benchmarks" / "giving-in" / "scenarios.json"
    rows = [row for row in json.loads(file.read_bytes()) if not row["id"].startswith("m01_s001_")]
    file.write_text(json.dumps(rows), "utf-8")
    assert said(place, *until).code == 0
    before = everything(place)["scenarios"]
    for path in place.root.glob("crosswind.db*"):
        path.unlink()
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before


@pytest.mark.exhaustive
def test_a_scenario_of_which_only_an_older_row_can_be_read_comes_back_from_its_file(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path / "place")
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0
    for one, unit in (("m01_s001", "m01"), ("m01_s001_v01", "m01_s001_v01")):
        asked = Rewriting(Stage.GEN_SCENARIOS, one, unit, "other", "ann", "ann@here")
        place.run(stages=frozenset({Stage.GEN_SCENARIOS}), rewrite={"giving-in": asked})
    before, explained = everything(place), said(place, "run", "--explain").out
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute(
            "UPDATE scenario SET persona = CAST(x'c328ff' AS TEXT) WHERE seq IN "
            "(SELECT max(seq) FROM scenario WHERE scenario_id LIKE 'm01_s001%' "
            "GROUP BY scenario_id)"
        )
        connection.commit()
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before["scenarios"]
    assert said(place, "run", "--explain").out == explained
    assert said(place, "doctor").code == 0
