"""Providers that do their worst beside one that is sound: the sound one's rows are done in time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from engine.benchmark import Stage, State
from engine.facts import TakeStarted, VerdictGiven
from engine.store.records import UnitState
from tests.engine.wire.hostile import answering, failing, hostile
from tests.engine.wire.processes import crosswind
from tests.engine.wire.workplace import Workplace, metric, scenario
from tests.protocol_server.settings import Settings

NAME: Final = "side-by-side"
SOUND: Final = Settings(latency_ms=100, tokens_per_second=200)
MOST: Final = 3.0
"""So many times as long as by itself a sound provider's row may take, as both share a machine."""
_NO_WORDS: Final = re.compile(r"Traceback|Exception|\bbug\b|\w+Error\b|object at 0x|httptools")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e]")


def side_by_side(place: Workplace, said: Mapping[str, bytes]) -> float:
    """Run a sound target and one for each of these, in a process; how long the sound one took."""
    place.server.settings = SOUND
    with hostile(list(said.values())) as urls:
        bad = [
            {"id": name, **place.model("words-6"), "base_url": url}
            for name, url in zip(said, urls, strict=True)
        ]
        place.configure([{"id": "good", **place.model("words-40")}, *bad], simulate=40, evaluate=40)
        place.define(NAME, "Whether one harms the other.", [metric(1, "It holds.")])
        place.stage(NAME, [scenario(1)])
        ended = crosswind(place.root, "run", NAME, "--headless", hurried=True)
    fails = set(said) & set(failing(place.source))
    assert ended.returncode == (1 if fails else 0), ended.stderr
    _check_told(ended)
    _check_rows(place, fails)
    return _took(place)


def _check_rows(place: Workplace, fails: set[str]) -> None:
    units = _units(place)
    failed = {name for name, unit in units.items() if unit.state is State.FAILED}
    done = {name for name, unit in units.items() if unit.state is State.DONE}
    assert failed == fails
    assert failed | done == set(units)
    assert "good" in done
    for name in failed:
        reason = units[name].reason
        assert reason, name
        assert not _NO_WORDS.search(reason), reason
        assert len(reason) < 600


def _units(place: Workplace) -> dict[str, UnitState]:
    with place.reader() as reader:
        units = reader.units(NAME, Stage.SIMULATE)
    return {key.rsplit("__", 1)[-1]: unit for key, unit in units.items()}


def check_commands(root: Path) -> None:
    """Whatever is asked of the workspace afterwards is answered."""
    for words in (["status"], ["results", NAME], ["mirror"]):
        ended = crosswind(root, *words)
        assert ended.returncode == 0, (words, ended.stderr)
        _check_told(ended)


def _check_told(ended: CompletedProcess[str]) -> None:
    told = ended.stdout + ended.stderr
    assert not _NO_WORDS.search(told), told
    assert not _CONTROLS.search(told), told


def _took(place: Workplace) -> float:
    """From the beginning of the sound conversation to its verdict."""
    with place.reader() as reader:
        facts = [
            fact
            for fact in reader.facts(0)
            if isinstance(fact, TakeStarted | VerdictGiven) and fact.key.target_id == "good"
        ]
    return (facts[-1].at - facts[0].at).total_seconds()


def test_providers_that_do_their_worst_never_harm_one_that_is_sound(
    place: Workplace, tmp_path: Path
) -> None:
    alone = side_by_side(Workplace(tmp_path / "alone", place.server, source=place.source), {})
    said = {**failing(place.source), **answering(place.source)}
    del said["events-packed"]  # takes seconds by itself: among the long tests
    assert side_by_side(place, said) <= MOST * alone
    check_commands(place.root)
