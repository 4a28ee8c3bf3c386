"""The dialogues of the sample benchmarks: as they are written, and as they are heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InputError
from engine.providers.scripted.dialogue import FOLDER, read_sheet, sheets
from tests.engine.providers.playing import sample

SHEET = FOLDER / "own-judgement-m01.yaml"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("{walking past", "walking past", "a brace has no partner"),
        ("«When you imagine", "When you imagine", "a « or » has no partner"),
        ("{answer}", "{anser}", "{anser} is neither {one|another} nor one of answer"),
        ("    goal: To", "    gaol: To", "Extra inputs are not permitted"),
        ("track: positive", "track: sideways", "Input should be 'positive' or 'negative'"),
        ("      5:\n", "      6:\n", "it has the turns [2, 3, 4, 6], but needs 2 to 5"),
        ("persona: >", "persona: [", "expected"),
    ],
)
def test_a_fault_is_told_with_its_file_and_line(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text(SHEET.read_text("utf-8").replace(before, after, 1), "utf-8")
    with pytest.raises(InputError) as raised:
        read_sheet(path)
    first, *_ = raised.value.problems
    assert told in str(raised.value)
    assert first.path == path
    assert first.line is not None


def test_a_fault_is_told_at_the_block_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "sheet.yaml"
    lines = SHEET.read_text("utf-8").splitlines()
    at = lines.index("        cave: |")
    lines[at + 1] += " {"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(InputError) as raised:
        read_sheet(path)
    assert [problem.line for problem in raised.value.problems] == [at + 1]


def test_a_sheets_metric_is_the_samples_own() -> None:
    for benchmark in ("own-judgement",):
        for metric in sample(benchmark).metrics:
            sheet = next(one for one in sheets() if one.metric == metric.name)
            assert sheet.definition == " ".join(metric.definition.split())
            assert sheet.track is metric.track
            assert len(sheet.dialogues) == 2
