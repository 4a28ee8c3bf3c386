"""On a finished run: what people edited in its files, and what may go from its store."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey, Speaker, StopReason
from engine.cli.making import place_samples
from engine.store.database import open_store
from engine.store.tables import TakeEndRow
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.store.building import message, scenario, scenario_row, take, verdict, write

NAME = "sycophancy"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in which two takes of one conversation were played and judged."""
    place_samples(tmp_path / "ours")
    root = tmp_path / "ours"
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    played = scenario()
    key = ConversationKey(played.id, "steadfast", 0)
    with open_store(root / "crosswind.db") as store:
        write(store, replace(scenario_row(played), benchmark=NAME))
        for number in range(2):
            [seq] = write(store, replace(take(key, number), benchmark=NAME))
            said = [message(seq, 1, speaker) for speaker in Speaker]
            write(store, *said, TakeEndRow(take=seq, stop_reason=StopReason.TURN_LIMIT))
            write(store, verdict(seq, passed=True))
    crosswind(root, "repair", "--files", NAME, code=0)
    return root


def test_an_edited_file_is_shown_kept_or_written_anew(root: Path) -> None:
    def mirror(*options: str) -> tuple[list[str], str]:
        said = crosswind(root, "repair", "--files", NAME, *options, code=0)
        return said.out.splitlines(), said.err

    scores = root / "benchmarks" / NAME / "runs" / "steadfast" / "scores.json"
    ours = scores.read_text()
    name = f"benchmarks/{NAME}/runs/steadfast/scores.json"
    edited = ours.replace('"passed": true', '"passed": false', 1)
    scores.write_text(edited)
    approve(mirror()[1])
    lines, said = mirror("--diff")
    assert [line.strip() for line in lines if line[0] in "+-"][2:] == [
        '-    "passed": false,',
        '+    "passed": true,',
    ]
    assert said == ""
    approve(mirror("--keep")[1])
    assert mirror() == ([], "")
    assert scores.read_text() == edited
    assert mirror("--overwrite") == ([name], "")
    approve(mirror("--diff"))
    assert scores.read_text() == ours


def test_a_replaced_take_goes_when_a_person_agrees(root: Path) -> None:
    def prune(*options: str) -> tuple[int, str]:
        said = crosswind(root, "prune", *options)
        return said.code, said.text

    what = "1 replaced take with 2 messages (10 characters) and 1 verdict, 0 notes and 0 runs"
    assert prune("--dry-run") == (0, f"would be removed: {what}\n")
    code, said = prune()
    assert code == 2
    approve(said)
    approve(prune("--older-than", "3"))
    code, said = prune("--older-than", "-1")
    assert (code, "expected days" in said) == (2, True)
    code, said = prune("--yes")
    assert code == 0
    assert said.startswith(f"removed: {what}\n")
    assert "is smaller by" in said
    approve(prune("--yes"))
