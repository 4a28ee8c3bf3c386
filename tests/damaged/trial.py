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

CONVERSATION: Final = "m01_s001_v01__holds"
Content = Mapping[str, Any]
"""All that a store says."""

NOTHING_SUCH: Final = "there is nothing with the id"
"""True of a store that lost it, and no fault of the command."""

COMMANDS: Final = (
    ("status",),
    ("results",),
    ("show", CONVERSATION),
    ("run", "--headless", "--yes"),
)
AFTERWARDS: Final = (
    *reversed(COMMANDS),
    ("doctor",),
    ("search", "the"),
    ("repair", "--files"),
    ("export", "jsonl"),
    ("status", "--json"),
    ("run", "--explain"),
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

    def __str__(self) -> str:
        told = (self.err or self.out).strip().splitlines()
        return f"{' '.join(self.words)}: {self.code}: {' / '.join(told)[:600]}"


@dataclass(frozen=True)
class Trial:
    """One store."""

    kind: str
    seed: int
    with_files: bool
    how: str
    outcome: Outcome
    why: str = ""

    def __str__(self) -> str:
        files = "" if self.with_files else ", without files"
        return f"{self.kind} {self.seed}{files}: {self.outcome}: {self.how}: {self.why}"


def said(place: Place, *words: str) -> Said:
    return Said(words, *crosswind(place.root, *words))


def tried(sound: Sound, kind: Damage, seed: int, root: Path, *, with_files: bool = True) -> Trial:
    """Harm a copy, use every command on it, repair it, and use them again."""
    chance = random.Random(f"{kind.__name__} {seed}")
    first = sound.logged if kind in WITH_LOG else sound.closed
    place = first.copied(root)
    if not with_files:
        shutil.rmtree(place.root / "benchmarks" / "giving-in" / "runs")
        for path in (place.root / "benchmarks").rglob("*.json*"):
            path.unlink()
    how = kind(place.store, chance)
    course = _Course(place, first, with_files=with_files)
    course.with_run = kind not in WITH_LOG and kind is not no_file
    trial = course.run()
    return Trial(kind.__name__, seed, with_files, how, *trial)


@dataclass
class _Course:
    place: Place
    first: Place
    with_files: bool
    with_run: bool = True

    def run(self) -> tuple[Outcome, str]:
        doctor = said(self.place, "doctor")
        # a run of which the last rows are lost does them again, and writes the files anew
        commands = COMMANDS if self.with_run else COMMANDS[:-1]
        before = [said(self.place, *words) for words in commands]
        failed = [one for one in before if one.code != 0 and NOTHING_SUCH not in one.err]
        for one in (doctor, *before):
            if one.is_a_bug:
                return Outcome.TRACEBACK, str(one)
        if doctor.code == 0:
            if failed and not self.with_files and "does not exist yet" in failed[0].err:
                return Outcome.TOLD, str(failed[0])  # nothing is left of it
            if failed:
                return Outcome.UNNOTICED, str(failed[0])
            missing = self._missing()
            repaired = self._repaired()
            if repaired.is_a_bug:
                return Outcome.TRACEBACK, str(repaired)
            if missing and _changed_nothing(repaired):
                return Outcome.UNNOTICED, missing
            if _changed_nothing(repaired):
                return Outcome.HARMLESS, ""
            return self._after(repaired)
        for one in (doctor, *failed):
            if not _shows_the_way(one):
                return Outcome.DEAD_END, str(one)
        repaired = self._repaired()
        if repaired.is_a_bug:
            return Outcome.TRACEBACK, str(repaired)
        if repaired.code == 2:
            return self._told(repaired)
        return self._after(repaired)

    def _repaired(self) -> Said:
        return said(self.place, "repair", "--yes", "--json")

    def _told(self, repaired: Said) -> tuple[Outcome, str]:
        """The way out that was told is one."""
        if "move it away" not in repaired.err:
            return Outcome.DEAD_END, str(repaired)
        for suffix in ("", "-wal", "-shm"):
            path = self.place.store.with_name(self.place.store.name + suffix)
            if path.is_symlink() or path.exists():
                path.rename(self.place.root / f"away{suffix}")
        again = self._repaired()
        if again.code == 2 and not self.with_files:
            return Outcome.TOLD, str(again)
        outcome, why = self._after(again)
        return (Outcome.TOLD if outcome is Outcome.MENDED else outcome), why

    def _after(self, repaired: Said) -> tuple[Outcome, str]:
        if repaired.code not in {0, 1}:
            return Outcome.DEAD_END, str(repaired)
        lost = self._lost(repaired)
        for words in AFTERWARDS:
            one = said(self.place, *words)
            if one.is_a_bug:
                return Outcome.TRACEBACK, f"afterwards: {one}"
            if one.code != 0:
                return Outcome.DEAD_END, f"afterwards: {one}"
        again = said(self.place, "repair", "--yes")
        if not _changed_nothing(again):
            return Outcome.DEAD_END, f"repaired again: {again}"
        if lost:
            return Outcome.LOST, lost
        return Outcome.MENDED, ""

    def _missing(self) -> str:
        """What was stored and is not there, in words."""
        try:
            return _difference(everything(self.first), everything(self.place))
        except StoreError as error:
            return str(error)

    def _lost(self, repaired: Said) -> str:
        """What the files held and the store does not; without files, of what is not told."""
        if self.with_files:
            return _difference(everything(self.first), everything(self.place))
        return _lost_in_silence(self.first.store, self.place.store, told_by(repaired))


def _changed_nothing(repaired: Said) -> bool:
    if repaired.words[-1] != "--json":
        return "nothing was changed" in repaired.out
    done = printed_data(repaired.out)
    return done["damaged_store"] is None and done["filled"] is None


def _shows_the_way(one: Said) -> bool:
    """A command that could not be done on a damaged store names it, and what to do."""
    told = one.err + one.out
    return "crosswind.db" in told and ("crosswind repair" in told or "move it away" in told)


def _difference(then: Content, now: Content) -> str:
    """What was there and is there no more; what was done once more lies beside it."""
    return ", ".join(name for name, value in then.items() if not _holds(value, now[name], name))


def _holds(then: Any, now: Any, name: str) -> bool:
    if name == "counts":
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
    if name == "scenarios":  # one that only its file still knew is a person's
        return {one: told[0] for one, told in then.items()} == {
            one: told[0] for one, told in now.items()
        }
    if name == "takes":
        return all(take in now for take in then)
    if name == "judged":
        return all(all(one in now.get(take, ()) for one in given) for take, given in then.items())
    return bool(then == now)


@dataclass(frozen=True)
class Told:
    """What a repair says of messages that are not in the new store."""

    numbers: tuple[range, ...]
    """Of those that nobody can read."""
    left_out: int
    """How many can be read and belong to something that is lost."""
    is_cut_off: bool

    def __contains__(self, seq: object) -> bool:
        return any(seq in one for one in self.numbers)


def told_by(repaired: Said) -> Told:
    saved = printed_data(repaired.out)["saved"]
    if saved is None or not saved["rows"]:
        return Told((), 0, is_cut_off=True)  # of what was there nothing was left
    messages = saved["tables"]["message"]
    # of a number alone nobody knows which table it was in
    lost = [pair for one in saved["tables"].values() for pair in one["unreadable_rows"]]
    numbers = tuple(range(first, last + 1) for first, last in [*lost, *saved["missing_from_log"]])
    return Told(numbers, messages["left_out"], messages["cut_off"])


def _looked_at(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _lost_in_silence(then: Path, now: Path, told: Told) -> str:
    """Messages that are not in the store, and of which the repair does not tell."""
    with closing(_looked_at(then)) as first, closing(_looked_at(now)) as second:
        kept = {text for (text,) in second.execute("SELECT text FROM message")}
        rows = first.execute("SELECT seq, text FROM message ORDER BY seq").fetchall()
    silent = [seq for seq, text in rows if text not in kept and seq not in told]
    if told.is_cut_off or len(silent) <= told.left_out:
        return ""
    return f"{len(silent)} of {len(rows)} messages are not told, such as {silent[0]}"
