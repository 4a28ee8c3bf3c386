"""What becomes of a store that came to harm: noticed, told, mended, and nothing of it lost."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from engine.errors import StoreError
from tests.damaged.kinds import WITH_LOG, Damage, no_file
from tests.damaged.sound import Sound
from tests.engine.commands import crosswind, printed_data
from tests.engine.importing.places import everything
from tests.engine.small_workspace import Place

Content = Mapping[str, Any]
"""All that a store says."""

COMMANDS: Final = (("results",), ("run", "--headless", "--yes"))
AFTERWARDS: Final = (
    *reversed(COMMANDS),
    ("doctor",),
    ("status", "--json"),
    ("search", "the"),
    ("repair", "--files"),
)


class Outcome(StrEnum):
    """What became of it, the worst last."""

    HARMLESS = "harmless"
    """All that was stored is there, by every command."""
    MENDED = "mended"
    TOLD = "told, with the way out"
    """It is not ours to mend: a sentence says what to do."""
    LOST = "something is lost that the files held, or is not told"
    UNNOTICED = "not noticed"
    DEAD_END = "dead end"
    TRACEBACK = "traceback"


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def is_a_bug(self) -> bool:
        return "bug in Crosswind" in self.err or "Traceback" in self.err + self.out

    @property
    def shows_the_way(self) -> bool:
        """Whether it names the store, and what to do."""
        told = self.err + self.out
        return "crosswind.db" in told and ("crosswind repair" in told or "move it away" in told)

    @property
    def changed_nothing(self) -> bool:
        """Of a repair."""
        if self.words[-1] != "--json":
            return "nothing was changed" in self.out
        done = printed_data(self.out)
        return done["damaged_store"] is None and done["filled"] is None

    def __str__(self) -> str:
        told = (self.err or self.out).strip().splitlines()
        return f"{' '.join(self.words)}: {self.code}: {' / '.join(told)[:600]}"


class _Ended(Exception):  # noqa: N818  (how a trial ends, no error)
    """Nothing more is to be tried."""

    def __init__(self, outcome: Outcome, why: object = "") -> None:
        self.outcome, self.why = outcome, str(why)


@dataclass(frozen=True)
class Trial:
    """One store."""

    kind: str
    seed: int
    with_files: bool
    how: str
    outcome: Outcome
    why: str = ""


def said(place: Place, *words: str) -> Said:
    """What a command says. Ends the trial if it shows a bug."""
    one = Said(words, *crosswind(place.root, *words))
    if one.is_a_bug:
        raise _Ended(Outcome.TRACEBACK, one)
    return one


def tried(sound: Sound, kind: Damage, seed: int, root: Path, *, with_files: bool = True) -> Trial:
    """Harm a copy, use commands on it, repair it, and use them again."""
    chance = random.Random(f"{kind.__name__} {seed}")
    first = sound.logged if kind in WITH_LOG else sound.closed
    place = first.copied(root)
    if not with_files:
        shutil.rmtree(place.root / "benchmarks" / "giving-in" / "runs")
        for path in (place.root / "benchmarks").rglob("*.json*"):
            path.unlink()
    how = kind(place.store, chance)
    # a run of which the last rows are lost does them again, and writes the files anew
    commands = COMMANDS[:-1] if kind in WITH_LOG or kind is no_file else COMMANDS
    try:
        _course(place, first, commands, with_files=with_files)
        outcome, why = Outcome.MENDED, ""
    except _Ended as ended:
        outcome, why = ended.outcome, ended.why
    return Trial(kind.__name__, seed, with_files, how, outcome, why)


def _course(
    place: Place, first: Place, commands: tuple[tuple[str, ...], ...], *, with_files: bool
) -> None:
    doctor = said(place, "doctor")
    failed = [one for one in (said(place, *words) for words in commands) if one.code != 0]
    if doctor.code == 0:
        if failed and not with_files and "does not exist yet" in failed[0].err:
            raise _Ended(Outcome.TOLD, failed[0])  # nothing is left of it
        if failed:
            raise _Ended(Outcome.UNNOTICED, failed[0])
        missing, repaired = _missing(first, place), _repaired(place)
        if repaired.changed_nothing:
            raise _Ended(Outcome.UNNOTICED if missing else Outcome.HARMLESS, missing)
        _afterwards(place, first, repaired, with_files=with_files)
        return
    for one in (doctor, *failed):
        if not one.shows_the_way:
            raise _Ended(Outcome.DEAD_END, one)
    repaired = _repaired(place)
    if repaired.code != 2:
        _afterwards(place, first, repaired, with_files=with_files)
        return
    # the way out that was told is one
    if "move it away" not in repaired.err:
        raise _Ended(Outcome.DEAD_END, repaired)
    for path in place.root.glob("crosswind.db*"):
        path.rename(place.root / f"away{path.suffix}")
    again = _repaired(place)
    if again.code != 2 or with_files:
        _afterwards(place, first, again, with_files=with_files)
    raise _Ended(Outcome.TOLD, again)


def _repaired(place: Place) -> Said:
    return said(place, "repair", "--yes", "--json")


def _afterwards(place: Place, first: Place, repaired: Said, *, with_files: bool) -> None:
    if repaired.code not in {0, 1}:
        raise _Ended(Outcome.DEAD_END, repaired)
    lost = _missing(first, place) if with_files else _untold(first.store, place.store, repaired)
    for words in AFTERWARDS:
        one = said(place, *words)
        if one.code != 0:
            raise _Ended(Outcome.DEAD_END, f"afterwards: {one}")
    again = said(place, "repair", "--yes")
    if not again.changed_nothing:
        raise _Ended(Outcome.DEAD_END, f"repaired again: {again}")
    if lost:
        raise _Ended(Outcome.LOST, lost)


def _missing(first: Place, place: Place) -> str:
    """What was stored and is not there, in words; what was done once more lies beside it."""
    try:
        then, now = everything(first), everything(place)
    except StoreError as error:
        return str(error)
    return ", ".join(name for name, value in then.items() if not _holds(value, now[name], name))


def _holds(then: Any, now: Any, name: str) -> bool:
    match name:
        case "counts":
            return all(
                target in now
                and one[0] == now[target][0]
                # a bit that makes a count of tokens NULL is not seen: providers may report none
                and all(
                    tokens <= found
                    for tokens, found in zip(one[1:], now[target][1:], strict=True)
                    if found
                )
                for target, one in then.items()
            )
        case "scenarios":  # one that only its file still knew is a person's
            return {one: told[0] for one, told in then.items()} == {
                one: told[0] for one, told in now.items()
            }
        case "takes":
            return all(take in now for take in then)
        case "judged":
            return all(
                all(one in now.get(take, ()) for one in given) for take, given in then.items()
            )
        case _:
            return bool(then == now)


def _untold(then: Path, now: Path, repaired: Said) -> str:
    """Messages that are not in the store, and of which the repair does not tell."""
    saved = printed_data(repaired.out)["saved"]
    if saved is None or not saved["rows"] or saved["cut_off"]:
        return ""  # of what was there nothing was left, or nobody can say how much
    with (
        closing(sqlite3.connect(f"file:{then}?mode=ro", uri=True)) as first,
        closing(sqlite3.connect(f"file:{now}?mode=ro", uri=True)) as second,
    ):
        kept = {text for (text,) in second.execute("SELECT text FROM message")}
        rows = first.execute("SELECT seq, text FROM message ORDER BY seq").fetchall()
    told = [range(low, high + 1) for low, high in saved["unreadable_rows"]]
    told += [range(low, high + 1) for low, high in saved["missing_from_log"]]
    silent = [seq for seq, text in rows if text not in kept and not any(seq in one for one in told)]
    if len(silent) <= saved["left_out"]:
        return ""
    return f"{len(silent)} of {len(rows)} messages are not told, such as {silent[0]}"
