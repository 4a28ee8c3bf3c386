"""A store that came to harm is mended, or a sentence says how to make it again: a few of many
kinds, of which `tests/long` tries two hundred and more."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.service import hosting
from engine.store.tables import TABLES
from tests.approval import approve, lines_with
from tests.damaged import kinds
from tests.damaged.kinds import Damage
from tests.damaged.sound import Sound, play
from tests.damaged.trial import Outcome, said, tried
from tests.engine.importing.places import everything, make_place, mirrored_files
from tests.engine.small_workspace import Place

CHOSEN: list[tuple[Damage, int, bool, set[Outcome]]] = [
    (kinds.flips, 0, True, {Outcome.MENDED}),
    (kinds.no_utf8, 2, False, {Outcome.MENDED}),
    (kinds.unknown_word, 1, True, {Outcome.MENDED}),
    (kinds.reference_gone, 0, True, {Outcome.MENDED}),
    (kinds.pages_gone, 2, False, {Outcome.MENDED}),
    (kinds.schema_changed, 1, True, {Outcome.MENDED}),
    (kinds.no_file, 0, True, {Outcome.MENDED}),
    (kinds.folder, 0, True, {Outcome.TOLD}),
    (kinds.log_cut, 2, False, {Outcome.MENDED}),
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
    sound: Sound,
    tmp_path: Path,
    kind: Damage,
    seed: int,
    with_files: bool,
    expected: set[Outcome],
) -> None:
    trial = tried(sound, kind, seed, tmp_path / "place", with_files=with_files)
    assert trial.outcome in expected, str(trial)


def _gone(turn: int) -> Damage:
    """The target's message of this turn of three, in some conversation."""

    def gone(path: Path, chance: object) -> str:
        del chance
        with closing(sqlite3.connect(path)) as connection:
            where = "turn = ? AND speaker = 'assistant'"
            last = f"SELECT max(seq) FROM message WHERE {where}"
            connection.execute(f"DELETE FROM message WHERE seq = ({last})", (turn,))
            connection.commit()
        return f"what was answered in turn {turn} is gone"

    return gone


@pytest.mark.exhaustive
@pytest.mark.parametrize(("turn", "look_s"), [(1, 0.0), (3, 0.25)])
def test_a_message_that_is_gone_is_not_taken_out_of_the_files_too(
    sound: Sound,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    turn: int,
    look_s: float,
) -> None:
    """Nor by a run whose first look at the store had no time to come so far."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", look_s)
    trial = tried(sound, _gone(turn), 0, tmp_path / "place")
    assert trial.outcome is Outcome.MENDED, str(trial)


def _without_base(path: Path, chance: object) -> str:
    del chance
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM scenario WHERE scenario_id = 'm01_s001'")
        connection.commit()
    return "a base scenario is gone"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("with_files", "look_s"), [(True, 0.0), (False, 0.25)])
def test_a_base_scenario_that_is_gone_comes_back_from_its_file_or_is_given_up(
    sound: Sound,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_files: bool,
    look_s: float,
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", look_s)
    trial = tried(sound, _without_base, 0, tmp_path / "place", with_files=with_files)
    assert trial.outcome is Outcome.MENDED, str(trial)


def test_a_variant_that_comes_from_a_file_without_its_base_is_no_loss(
    sound: Sound, tmp_path: Path
) -> None:
    theirs = sound.closed.copied(tmp_path / "theirs")
    file = theirs.root / "benchmarks" / "giving-in" / "scenarios.json"
    rows = json.loads(file.read_bytes())
    assert rows.pop(0)["_crosswind"].pop("base")
    file.write_text(json.dumps(rows), "utf-8")
    place = make_place(tmp_path / "ours")
    assert said(place, "import", str(theirs.root)).code == 0
    doctor = said(place, "doctor")
    assert doctor.code == 0, str(doctor)


def test_a_seed_harms_the_same_place_of_the_same_rows_in_every_run(
    sound: Sound, tmp_path: Path
) -> None:
    again = play(tmp_path)
    for one, other in ((sound.closed, again.closed), (sound.logged, again.logged)):
        assert _rows(one.store) == _rows(other.store)
        assert _sizes(one.root) == _sizes(other.root)


def _rows(store: Path) -> list[list[tuple[object, ...]]]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall() for table in TABLES
        ]


def _sizes(root: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_size
        for path in root.glob("crosswind.db*")
        if not path.name.endswith("-shm")
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["run", "repair"])
def test_a_variant_that_is_gone_comes_back_from_its_file(tmp_path: Path, command: str) -> None:
    """Of one that nothing else refers to, the file alone tells."""
    place = make_place(tmp_path / "place")
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0
    before, name = everything(place), "benchmarks/giving-in/scenarios.json"
    file = mirrored_files(place)[name]
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute("DELETE FROM scenario WHERE scenario_id = 'm01_s001_v01'")
        connection.commit()
    approve(lines_with(said(place, "doctor").out, "scenario m01_s001_v01, as"))
    done = said(
        place, *(("run", "--headless", "--yes") if command == "run" else ("repair", "--files"))
    )
    assert done.code != 0
    approve(lines_with(done.out + done.err, "crosswind: "))
    assert mirrored_files(place)[name] == file
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before["scenarios"]
    assert said(place, "repair", "--files").code == 0
    assert mirrored_files(place)[name] == file
    assert said(place, "doctor").code == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("lost", ["m01_s001", "m01_s001_v01"], ids=["base", "variant"])
def test_the_newest_row_of_a_scenario_that_was_written_twice_comes_back_from_its_file(
    tmp_path: Path, lost: str
) -> None:
    """An older row is left, so that no id is missing."""
    place = make_place(tmp_path / "place")
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0
    for one in ("m01_s001", "m01_s001_v01"):
        again = said(place, "review", "giving-in", "--generate", one, "--note", "other", "--yes")
        assert again.code == 0, str(again)
    before, name = everything(place), "benchmarks/giving-in/scenarios.json"
    file, explained = mirrored_files(place)[name], said(place, "run", "--explain").out
    with closing(sqlite3.connect(place.store)) as connection:
        newest = "SELECT max(seq) FROM scenario WHERE scenario_id = ?"
        connection.execute(f"DELETE FROM scenario WHERE seq = ({newest})", (lost,))
        connection.commit()
    told = f"scenario {lost}, as its files hold it, is missing"
    assert told in said(place, "doctor").out
    for words in (("run", "--headless", "--yes"), ("repair", "--files")):
        done = said(place, *words)
        assert done.code != 0
        assert told in done.out + done.err
    assert mirrored_files(place)[name] == file
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before["scenarios"]
    assert said(place, "repair", "--files").code == 0
    assert mirrored_files(place)[name] == file
    assert said(place, "run", "--explain").out == explained
    assert said(place, "doctor").code == 0


def _without_variants(place: Place) -> None:
    """A person takes both variants of a base scenario out of the file."""
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0
    file = place.root / "benchmarks" / "giving-in" / "scenarios.json"
    rows = json.loads(file.read_bytes())
    rows = [row for row in rows if not row["id"].startswith("m01_s001_")]
    file.write_text(json.dumps(rows), "utf-8")
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("deleted", "lost"),
    [
        ("scenario_id = 'm01_s001'", "m01_s001"),
        ("scenario_id = 'm01_s001_v02' AND removed = 1", "m01_s001_v02"),
        ("scenario_id = 'm01_s001_v02'", "m01_s001_v02"),
    ],
    ids=["a base without variants", "a removal", "all of what was removed"],
)
def test_what_only_the_history_holds_is_missed_and_comes_back_from_it(
    tmp_path: Path, deleted: str, lost: str
) -> None:
    place = make_place(tmp_path / "place")
    _without_variants(place)
    before, files = everything(place), mirrored_files(place)
    explained = said(place, "run", "--explain").out
    with closing(sqlite3.connect(place.store)) as connection:
        assert connection.execute(f"DELETE FROM scenario WHERE {deleted}").rowcount
        connection.commit()
    told = f"scenario {lost}, as its files hold it, is missing"
    assert told in said(place, "doctor").out
    for words in (("run", "--headless", "--yes"), ("repair", "--files")):
        done = said(place, *words)
        assert done.code != 0
        assert told in done.out + done.err
    assert mirrored_files(place) == files
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before["scenarios"]
    assert said(place, "repair", "--files").code == 0
    assert mirrored_files(place) == files
    assert said(place, "run", "--explain").out == explained
    assert said(place, "doctor").code == 0


def test_a_base_without_variants_is_in_a_store_that_is_made_from_the_files(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place")
    _without_variants(place)
    before = everything(place)
    for path in place.root.glob("crosswind.db*"):
        path.unlink()
    assert said(place, "repair", "--yes").code == 0
    assert everything(place)["scenarios"] == before["scenarios"]


def test_a_file_that_lags_or_that_a_person_changed_says_of_no_loss(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place")
    assert said(place, "run", "--headless", "--yes", "--until", "gen_scenarios").code == 0
    file = place.root / "benchmarks" / "giving-in" / "scenarios.json"
    rows = json.loads(file.read_bytes())
    rows[0] = {**rows[0], "id": "m01_s009_v01"}
    rows[2]["_crosswind"]["base"]["persona"] = "Somebody else."  # which nobody reads
    file.write_text(json.dumps(rows), "utf-8")
    for words in (("doctor",), ("run", "--headless", "--yes"), ("doctor",), ("repair", "--files")):
        done = said(place, *words)
        assert done.code == 0, str(done)
