"""What becomes of a store that came to harm: noticed, told, mended, and nothing of it lost."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from engine.errors import StoreError
from tests.damaged.kinds import WITH_LOG, Damage, no_file, other_digest, other_text
from tests.damaged.sound import Sound
from tests.engine.commands import crosswind
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
    LOST = "something readable is lost"
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
    left = _bytes_of(place.store)
    unreadable = not with_files and kind in (other_digest, other_text)
    course = _Course(place, first, with_files=with_files, left=left, unreadable=unreadable)
    course.with_run = kind not in WITH_LOG and kind is not no_file
    trial = course.run()
    return Trial(kind.__name__, seed, with_files, how, *trial)


def _bytes_of(store: Path) -> bytes:
    files = (store, store.with_name(store.name + "-wal"))
    return b"".join(file.read_bytes() for file in files if file.is_file())


@dataclass
class _Course:
    place: Place
    first: Place
    with_files: bool
    left: bytes
    unreadable: bool = False
    """Whether what is in the file cannot be vouched for."""
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
        lost = "" if self.unreadable else self._lost(repaired)
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
        """What the files or what can be read of the store held, and the new one does not."""
        if self.with_files:
            return _difference(everything(self.first), everything(self.place))
        return _lost_in_silence(self.first.store, self.place.store, self.left, told_by(repaired))


def _changed_nothing(repaired: Said) -> bool:
    if repaired.words[-1] != "--json":
        return "nothing was changed" in repaired.out
    done = json.loads(repaired.out)
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
            and one[1] <= now[target][1]
            and one[2] <= now[target][2]
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
    """What a repair says of what is not in the new store."""

    numbers: tuple[range, ...]
    """Of rows that nobody can read."""
    left_out: Mapping[int, str]
    """The text of messages that lie in the file beside it, by their number."""
    is_cut_off: bool

    def __contains__(self, seq: object) -> bool:
        return any(seq in one for one in self.numbers)


def told_by(repaired: Said) -> Told:
    report = json.loads(repaired.out)
    saved, beside = report["saved"], report["left_out"]
    left_out = {}
    if beside is not None:
        place = Path(beside["file"])
        assert place.stat().st_mode & 0o777 == 0o600
        lines = [json.loads(line) for line in place.read_text("utf-8").splitlines()]
        assert Counter(line["table"] for line in lines) == beside["rows"]
        rows = [line["row"] for line in lines if line["table"] == "message"]
        left_out = {row["seq"]: row["text"] for row in rows}
    if saved is None:
        return Told((), left_out, is_cut_off=True)  # of what was there nothing was left
    lost = [pair for one in saved["tables"].values() for pair in one["unreadable_rows"]]
    lost += saved["missing_from_log"]
    numbers = tuple(range(first, last + 1) for first, last in lost)
    return Told(numbers, left_out, is_cut_off=saved["cut_off"])


def _looked_at(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _lost_in_silence(then: Path, now: Path, left: bytes, told: Told) -> str:
    """Messages that are neither in the store nor beside it. One whose bytes were destroyed is told
    with its number; one whose text is still in the file should not be missing at all."""
    silent, readable, stored = [], [], 0
    with closing(_looked_at(then)) as first, closing(_looked_at(now)) as second:
        kept = {text for (text,) in second.execute("SELECT text FROM message")}
        kept |= set(told.left_out.values())
        for seq, text in first.execute("SELECT seq, text FROM message ORDER BY seq"):
            stored += 1
            if text in kept or seq in told.left_out:
                continue
            if text.encode() in left:
                readable.append(seq)
            elif seq not in told and not told.is_cut_off:
                silent.append(seq)
    return ", ".join(
        f"{len(some)} of {stored} messages {how}, such as {some[0]}"
        for how, some in (("not told", silent), ("in the file and not saved", readable))
        if some
    )
