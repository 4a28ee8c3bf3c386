"""Compares what a test prints with what was approved: a file for each module of tests, in a folder
`approved` beside it, with a section for each text. `pytest --approve` records anew.
"""

from __future__ import annotations

import fcntl
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from pprint import pformat
from typing import Final

import pytest

PROJECT: Final = Path(__file__).parents[1]
CHANGING: Final[Mapping[str, str]] = {
    r"\b\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC": "<time>",
    r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\+00-00": "<time>",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?": "<time>",
    r"\b\d{4}-\d\d-\d\d\b": "<day>",
    r"\bdata-[0-9a-f]{10}\b": "data-<digest>",
    r"127\.0\.0\.1:\d+": "127.0.0.1:<port>",
    r"(?<=free some space on )/[^\s,;)]*": "<file system>",
}
"""What differs from one day and one server to the next, and the word that stands for it."""
_MEASURED: Final[Mapping[str, str]] = {
    r"\b\d+ ms\b": "<ms>",
    r"(?m)^\[\d\d:\d\d\] .*\n": "",  # how far a run is, as often as there is time to say so
}
_HEADER: Final = "━━━ "
_BETWEEN_PANES: Final = re.compile(r" {3,}|─{2,}|[│▌▃▇]")
_ORDINAL: Final = re.compile(r" #\d+$")


def steady(text: str, changing: Mapping[str, str] = CHANGING) -> str:
    for pattern, word in changing.items():
        text = re.sub(pattern, word, text)
    return text


def approved(path: Path) -> dict[str, str]:
    """The texts of a file, by their headers."""
    whole = path.read_text("utf-8") if path.exists() else ""
    sections = whole.removeprefix(_HEADER).split(f"\n{_HEADER}") if whole else []
    return {
        header: text.rstrip("\n")
        for header, _, text in (section.partition("\n") for section in sections)
    }


def approval_file(module: Path) -> Path:
    return module.parent / "approved" / f"{module.stem}.txt"


class _Test:
    """The one that is carried out, and what it has printed so far."""

    def __init__(self, item: pytest.Item, base: Path, *, record: bool) -> None:
        self.file = approval_file(item.path)
        self.name = item.name
        self.record = record
        self.changing = {
            rf"{re.escape(str(base))}(/[\w.\[\]-]+)?": "<tmp>",
            re.escape(str(PROJECT)): "<project>",
            **CHANGING,
            **_MEASURED,
        }
        self.headers: list[str] = []

    def next_header(self) -> str:
        count = len(self.headers) + 1
        self.headers.append(self.name if count == 1 else f"{self.name} #{count}")
        return self.headers[-1]

    def check_all_printed(self) -> None:
        sections = (one for one in approved(self.file) if _ORDINAL.sub("", one) == self.name)
        left = [one for one in sections if one not in self.headers]
        if left and self.record:
            change_sections(self.file, dict.fromkeys(left))
        elif left:
            pytest.fail(f"approved and no longer printed (see `pytest --approve`): {left}")


_carried_out: list[_Test] = []


@contextmanager
def approving(item: pytest.Item, base: Path, *, record: bool) -> Iterator[None]:
    """While a test is carried out. It has to print all that is approved for it."""
    test = _Test(item, base, record=record)
    _carried_out.append(test)
    try:
        yield
        test.check_all_printed()
    finally:
        _carried_out.remove(test)


def approve(value: object) -> None:
    """Fails unless a text is the one that was approved. Of several, there is a line for each; of
    anything else, its `repr`."""
    __tracebackhide__ = True
    test = _carried_out[-1]
    text, header = _printed(value, test.changing), test.next_header()
    if test.record:
        change_sections(test.file, {header: text})
        return
    before = approved(test.file).get(header)
    if before is None:
        pytest.fail(f"nothing is approved for it (see `pytest --approve`):\n{text}")
    if before != text:
        lines = unified_diff(before.split("\n"), text.split("\n"), "approved", "now", "", "", 9, "")
        pytest.fail("it prints another text than was approved:\n" + "\n".join(lines))


def lines_with(text: str, *words: str) -> list[str]:
    """The lines that hold one of these words, as they are read; each of the words stands in one."""
    lines = text.splitlines()
    missing = [one for one in words if not any(one in line for line in lines)]
    assert not missing, f"{missing} not in:\n{text}"
    return [" ".join(line.split()) for line in lines if any(one in line for one in words)]


def cells_with(screen: str, *words: str) -> list[str]:
    """Of a screen, what holds these words from the pane or column before it to the next one."""
    lines_with(screen, *words)
    found = list[str]()
    for line in screen.splitlines():
        cells = dict[str, None]()
        for word in (one for one in words if one in line):
            at = line.index(word)
            begin = max((one.end() for one in _BETWEEN_PANES.finditer(line, 0, at)), default=0)
            end = _BETWEEN_PANES.search(line, at + len(word))
            cells[" ".join(line[begin : end.start() if end else None].split())] = None
        found += cells
    return found


def sentences_with(text: str, *words: str) -> list[str]:
    """The sentences that hold one of these words, however they are broken into lines."""
    return lines_with(re.sub(r"(?<=[.!?]) ", "\n", " ".join(text.split())), *words)


def _printed(value: object, changing: Mapping[str, str]) -> str:
    match value:
        case str(text):
            pass
        case set() | frozenset():
            return _printed(sorted(value, key=str), changing)
        case [*texts] if texts and all(isinstance(one, str) for one in texts):
            text = "\n".join(f"- {one}" for one in texts)
        case _:
            text = pformat(value, width=100)
    lines = "\n".join(line.rstrip() for line in steady(text, changing).split("\n"))
    dense = re.sub(r"\n{3,}", "\n\n", lines).strip("\n")
    return "".join(character if character == "\n" else _visible(character) for character in dense)


def _visible(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def change_sections(file: Path, sections: Mapping[str, str | None]) -> None:
    """Set those with a text and remove the others, while no other worker does so."""
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        texts = approved(file) | dict(sections)
        kept = sorted((header, text) for header, text in texts.items() if text is not None)
        assert not any(f"\n{_HEADER}" in f"\n{text}" for _, text in kept)
        file.write_text("".join(f"{_HEADER}{header}\n{text}\n\n" for header, text in kept), "utf-8")


def sections_of_no_test(items: Iterable[pytest.Item]) -> dict[Path, list[str]]:
    """What is approved for tests that their module does not have, by file. All tests of these
    modules must have been collected."""
    names = defaultdict(set)
    for item in items:
        names[item.path].add(item.name)
    found = {}
    for module, tests in names.items():
        file = approval_file(module)
        left = [one for one in approved(file) if _ORDINAL.sub("", one) not in tests]
        if left:
            found[file] = left
    return found
