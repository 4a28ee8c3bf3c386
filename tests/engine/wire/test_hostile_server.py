"""Providers that do their worst beside one that is sound: the sound one's rows are done in time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from engine.benchmark import Stage, State
from engine.facts import TakeStarted, VerdictGiven
from engine.store.tables import StateRow
from tests.engine.wire.hostile import answering, failing, hostile
from tests.engine.wire.processes import crosswind, crosswind_each
from tests.engine.wire.workplace import Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

NAME: Final = "side-by-side"
SOUND: Final = Settings(latency_ms=100, tokens_per_second=200)
_NO_WORDS: Final = re.compile(r"Traceback|Exception|\bbug\b|\w+Error\b|object at 0x|httptools")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e]")


def side_by_side(place: Workplace, said: Mapping[str, Mapping[str, bytes]]) -> float:
    """Run, in a process, a sound target over each of these protocols and one for each thing that is
    said over it; how long the slowest of the sound ones took."""
    place.server.settings = SOUND
    every = [(source, name) for source, each in said.items() for name in each]
    with hostile([said[source][name] for source, name in every]) as urls:
        good = [{"id": f"good-{source}", **place.model("words-40", source)} for source in said]
        bad = [
            {"id": f"{name}-{source}", **place.model("words-6", source), "base_url": url}
            for (source, name), url in zip(every, urls, strict=True)
        ]
        first, *_, last = *said, *said
        place.configure(
            [*good, *bad],
            simulate=20 * len(said) + 20,
            evaluate=20 * len(said) + 20,
            user_model=place.model("user", last),
            evaluator_model=place.model("evaluator", first),
        )
        place.define(NAME, "Whether one harms the other.", [metric(1, "It holds.")])
        place.stage(NAME, [scenario(1)])
        ended = crosswind(place.root, "run", NAME, "--headless", hurried=True)
    fails = {f"{name}-{source}" for source, name in every if name in failing(source)}
    assert ended.returncode == (1 if fails else 0), ended.stderr
    _check_told(ended)
    sound = {target["id"] for target in good}
    _check_rows(place, fails, sound)
    return max(_took(place, target) for target in sound)


def _check_rows(place: Workplace, fails: set[str], sound: set[str]) -> None:
    units = _units(place)
    failed = {name for name, unit in units.items() if unit.state is State.FAILED}
    done = {name for name, unit in units.items() if unit.state is State.DONE}
    assert failed == fails
    assert failed | done == set(units)
    assert sound <= done
    for name in failed:
        reason = units[name].reason
        assert reason, name
        assert not _NO_WORDS.search(reason), reason
        assert len(reason) < 600


def _units(place: Workplace) -> dict[str, StateRow]:
    with place.reader() as reader:
        units = reader.units(NAME, Stage.SIMULATE)
    return {key.rsplit("__", 1)[-1]: unit for key, unit in units.items()}


def check_commands(root: Path) -> None:
    """Whatever is asked of the workspace afterwards is answered."""
    ended = crosswind_each(root, ["status"], ["results", NAME], ["repair", "--files"])
    assert ended.returncode == 0, ended.stderr
    _check_told(ended)


def _check_told(ended: CompletedProcess[str]) -> None:
    told = ended.stdout + ended.stderr
    assert not _NO_WORDS.search(told), told
    assert not _CONTROLS.search(told), told


def _took(place: Workplace, target: str) -> float:
    """From the beginning of a sound conversation to its verdict."""
    with place.reader() as reader:
        facts = [
            fact
            for fact in reader.facts(0)
            if isinstance(fact, TakeStarted | VerdictGiven) and fact.key.target_id == target
        ]
    return (facts[-1].at - facts[0].at).total_seconds()


def test_providers_that_do_their_worst_cost_a_sound_one_nothing(
    server: ProtocolServer, tmp_path: Path
) -> None:
    """Each over one protocol and the next over the other; the long tests try each over both, and
    hold how long the sound one takes."""
    said = {
        source: dict(list({**failing(source), **answering(source)}.items())[first::2])
        for first, source in enumerate(("openai", "anthropic"))
    }
    for each in said.values():
        each.pop("events-packed", None)  # takes seconds by itself
    place = Workplace(tmp_path, server)
    side_by_side(place, said)
    check_commands(place.root)
