"""A run that is killed, once or more, and then left to finish; what must be true all the way."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Stage
from tests.killing.holdings import (
    Holdings,
    check_once,
    check_whole,
    holdings,
    junk,
    mirrored,
)
from tests.killing.ledger import Call, Ledger, billed, kept, stage_of
from tests.killing.scene import PACE, Ended, Kill, Scene
from tests.protocol_server.request import Request
from tests.protocol_server.server import ProtocolServer

AT_ONCE: Final = 2
"""Cases side by side."""
CAN_BE_FOUND: Final = Path("/proc/self/environ").exists()
"""Whether an engine that has left its terminal can be found, to kill it."""
STARTING: Final = 0.15
"""The share of kills that come while an engine is starting."""
_USD: Final = (1e-6, 3e-6)
"""What a token of input and of output costs in a scene."""


@dataclass(frozen=True, slots=True)
class Death:
    """How an engine comes to its end: at a named moment; or so many seconds after its start, or
    after a share of the calls that are left to make."""

    moment: str | None = None
    seconds: float | None = None
    share: float = 0.0
    until: Stage | None = None
    """The stage after which it would stop by itself; None for the last one. The share is of the
    calls of this stage."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A run that nobody interrupted."""

    held: Holdings
    files: Mapping[str, Any]
    wanted: Counter[Call]
    bills: Mapping[Call, tuple[int, int]]
    """The least that an answer is billed for, as input and output tokens."""
    ended: Ended
    offline: bool = False
    """Whether the engine's own scripted models played it."""

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.held)


@dataclass(slots=True)
class Report:
    """What a case, or several, came to."""

    kills: int = 0
    acknowledged: int = 0
    """Messages that were on disk when the engine was killed."""
    lost: int = 0
    asked_twice: int = 0
    beside_first: list[float] = field(default_factory=list)
    """From a restart to its first call, as so many times what the first start of the same workspace
    took."""

    def add(self, other: Report) -> None:
        self.kills += other.kills
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.asked_twice += other.asked_twice
        self.beside_first += other.beside_first


def play_whole(root: Path, *, offline: bool = False) -> Whole:
    with ProtocolServer(PACE) as server:
        scene = Scene(root, server, offline=offline)
        ended = scene.live()
        assert ended.code == 0, ended.told
        requests = server.calls
        held = holdings(root)
        counters = server.counters
    _check_rest(scene, held)
    ledger = Ledger(held)
    wanted = ledger.answered(held)
    bills = asyncio.run(_bills(ledger, requests))
    if not offline:
        assert ledger.calls(requests) == wanted, "each row takes one call"
        spent = (held.input_tokens, held.output_tokens)
        assert spent == (counters.input_tokens, counters.output_tokens)
    return Whole(held, mirrored(root), wanted, bills, ended, offline)


async def _bills(ledger: Ledger, requests: Iterable[Request]) -> dict[Call, tuple[int, int]]:
    bills: dict[Call, tuple[int, int]] = {}
    for request in requests:
        call, bill = ledger.call(request), await billed(request)
        bills[call] = min(bill, bills.get(call, bill))
    return bills


def die_and_finish(
    root: Path, whole: Whole, deaths: Sequence[Death], *, detached: bool = False
) -> Report:
    """Raises AssertionError for anything that is not as it must be."""
    with ProtocolServer(PACE) as server:
        case = _Case(Scene(root, server, offline=whole.offline, detached=detached), whole)
        for death in deaths:
            if not case.live(death):
                assert death.moment is None, f"{death.moment} did not come"
                break
        else:
            assert not case.live(Death()), "nobody killed it"
        case.finish()
    return case.report


def die_in_stages(root: Path, whole: Whole, deaths: Mapping[Stage, Iterable[Death]]) -> Report:
    """Play undisturbed up to each stage named here, in their order, die in it until it is done, and
    go on to the end. Raises AssertionError for anything that is not as it must be."""
    done: Stage | None = None
    with ProtocolServer(PACE) as server:
        case = _Case(Scene(root, server), whole)
        for stage, deaths_in_it in deaths.items():
            earlier = list(Stage)[: list(Stage).index(stage)]
            if earlier and done is not earlier[-1]:
                assert not case.live(Death(until=earlier[-1])), "nobody killed it"
            for death in deaths_in_it:
                if not case.live(replace(death, until=stage)):
                    break
            assert not case.live(Death(until=stage)), "nobody killed it"
            done = stage
        assert not case.live(Death()), "nobody killed it"
        case.finish()
    return case.report


class _Case:
    def __init__(self, scene: Scene, whole: Whole) -> None:
        self._scene = scene
        self._whole = whole
        self._held = Holdings()
        self._starts = list[float | None]()
        """What each took to its first call."""
        self.report = Report()

    def live(self, death: Death) -> bool:
        """Whether it was killed. Otherwise it came to its end, and that was a good one."""
        before, requested = self._held, len(self._scene.server.calls)
        ended = self._scene.live(moment=death.moment, kill=self._kill(death), until=death.until)
        assert ended.killed or ended.code == 0, ended.told
        requests = self._scene.server.calls
        self._held = holdings(self._scene.root)
        check_whole(self._scene.root)
        check_once(self._held)
        self._check_asked(before, requests[requested:])
        self._check_kept(before, requests)
        self._check_spent(requests)
        self._starts.append(ended.first_call_s)
        match self._starts:
            case [float(first), *_, float(again)]:
                self.report.beside_first.append(again / first)
            case _:
                pass
        if ended.killed:
            self.report.kills += 1
            self.report.acknowledged += self._held.spoken
        return ended.killed

    def _kill(self, death: Death) -> Kill | None:
        if death.seconds is None:
            return None
        left = self._whole.wanted - self._whole.ledger.answered(self._held)
        calls = sum(left[one] for one in left if death.until in {None, stage_of(one)})
        return Kill(death.seconds, calls=round(death.share * calls))

    def finish(self) -> None:
        """What must be true when all is done."""
        whole, held = self._whole, self._held
        _check_rest(self._scene, held)
        assert whole.ledger.answered(held) == whole.wanted
        assert mirrored(self._scene.root) == whole.files

    def _check_asked(self, before: Holdings, requests: Sequence[Request]) -> None:
        ledger = self._whole.ledger
        asked, there = ledger.calls(requests), ledger.answered(before)
        twice = (asked + there) - self._whole.wanted
        self.report.asked_twice += twice.total()
        assert not twice, f"asked although it is there: {twice}"

    def _check_kept(self, before: Holdings, requests: Sequence[Request]) -> None:
        gone = self._whole.ledger.relied_on(requests) - kept(self._held)
        self.report.lost += len(gone) + len(before.messages - self._held.messages)
        assert not gone, f"a request went on from what is not on disk: {gone}"
        assert before.messages <= self._held.messages

    def _check_spent(self, requests: Sequence[Request]) -> None:
        """Nothing that is on disk was had for nothing, nothing is counted that was not billed, and
        nothing was billed that the store does not know of."""
        whole, held = self._whole, self._held
        if whole.offline:
            return
        least = _sum(whole.bills, whole.ledger.answered(held))
        most = _sum(whole.bills, whole.ledger.calls(requests))
        for recorded, low, high in zip(
            (held.input_tokens, held.output_tokens), least, most, strict=True
        ):
            assert low <= recorded <= high, (low, recorded, high)
        usd = held.input_tokens * _USD[0] + held.output_tokens * _USD[1]
        assert abs(held.cost_usd - usd) < 1e-9, (held.cost_usd, usd)
        counters = self._scene.server.counters
        billed_usd = counters.input_tokens * _USD[0] + counters.output_tokens * _USD[1]
        known_usd = held.cost_usd + held.cut_off_usd
        assert known_usd >= billed_usd - 1e-9, (held.cost_usd, held.cut_off_usd, billed_usd)


def _sum(bills: Mapping[Call, tuple[int, int]], calls: Counter[Call]) -> tuple[int, int]:
    total = [0, 0]
    for call, times in calls.items():
        for which, tokens in enumerate(bills[call]):
            total[which] += tokens * times
    return total[0], total[1]


def _check_rest(scene: Scene, held: Holdings) -> None:
    check_whole(scene.root)
    check_once(held)
    left = junk(scene.root, scene.temporary)
    assert not left, f"left behind: {left}"


def kill_at_random(root: Path, whole: Whole, kills: int, seed: int) -> Report:
    """At least so many kills at moments spread over the run, however slow the machine is; two in a
    row for each workspace. Every third engine is a detached one."""
    draw = random.Random(seed)
    total, number = Report(), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while total.kills < kills:
            count = max(1, -(-(kills - total.kills) // 2))
            cases = [
                pool.submit(
                    die_and_finish,
                    root / f"case-{one}",
                    whole,
                    _two(whole, draw),
                    detached=one % 3 == 2 and CAN_BE_FOUND,
                )
                for one in range(number, number + count)
            ]
            number += count
            for case in cases:
                total.add(case.result())
    return total


def _two(whole: Whole, draw: random.Random) -> tuple[Death, Death]:
    """Anywhere between two calls of what is left to do; now and then before the first."""
    return _one(whole, draw), _one(whole, draw)


def _one(whole: Whole, draw: random.Random) -> Death:
    starting = whole.ended.first_call_s or 0.0
    each = (whole.ended.seconds - starting) / whole.wanted.total()
    if draw.random() < STARTING:
        return Death(seconds=draw.uniform(starting / 3, starting))
    return Death(share=1 - draw.random(), seconds=draw.uniform(0.0, 3 * each))
