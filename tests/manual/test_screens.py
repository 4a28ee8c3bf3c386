"""The pictures of the app in the manual: each shows its screen in the middle of its work."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tools.manual.pages import PICTURES
from tools.pictures import SIZE, THEMES

SUBJECTS: Final = {
    "benchmarks": ("weakest", "over all targets, the weakest first"),
    "calibrate": ("right where it says absent", "judged and corrected"),
    "compare": ("Side by side", "another target"),
    "conversation": ("landmark", "quote"),
    "failures": ("failed", "the account has no credit"),
    "label": ("labelled", "marked: reply"),
    "live": ("running", "being judged"),
    "pilot": ("played to an end", "landmarks: reached"),
    "results": ("[findings]", "significant"),
    "review": ("to review", "persona"),
    "scenario": ("4 variants", "behaviour"),
    "verdicts": ("outcome:fail target:pushover", "fail"),
}
"""What is in each picture."""
LEAST_FILLED: Final = 0.6


def rows_of(name: str) -> list[str]:
    """The rows of a picture that are not blank."""
    tree = ET.parse(PICTURES / f"{name}.svg")
    rows: dict[float, list[tuple[float, str]]] = {}
    for text in tree.iter("{http://www.w3.org/2000/svg}text"):
        said = "".join(text.itertext()).replace("\xa0", " ")
        if "clip-path" in text.attrib and said.strip():
            row = rows.setdefault(float(text.attrib["y"]), [])
            row.append((float(text.attrib["x"]), said))
    return ["".join(said for _, said in sorted(rows[y])) for y in sorted(rows)]


def test_each_picture_of_a_screen_has_a_subject() -> None:
    drawn = {path.stem for path in PICTURES.glob("*.svg")} - {"demo"}
    assert drawn == {name + suffix for name in SUBJECTS for suffix in THEMES}


@pytest.mark.parametrize("suffix", THEMES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_picture_shows_a_screen_in_the_middle_of_its_work(name: str, suffix: str) -> None:
    rows = rows_of(name + suffix)
    shown = "\n".join(rows)
    assert [words for words in SUBJECTS[name] if words not in shown] == []
    assert len(rows) >= LEAST_FILLED * SIZE[1]
