"""Every command line that a page shows is one that is taken."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from engine.cli.command_line import parse
from engine.errors import InputError
from tools.manual.pages import DOCS

ROOT: Final = DOCS.parent
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
    *sorted(DOCS.rglob("*.md")),
]
_FENCE: Final = re.compile(r"^```(sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TYPED: Final = re.compile(r"(?:^|&& |; |\| )crosswind\b([^&|;]*)")
_CODE: Final = re.compile(r"`crosswind(?:\s+([^`]*))?`")


def typed_lines(text: str) -> Iterator[list[str]]:
    """The words after `crosswind`, in blocks for a shell and within sentences."""
    for kind, block in _FENCE.findall(text):
        for line in block.splitlines():
            if kind == "console" and not line.startswith("$ "):
                continue  # what was printed
            for words in _TYPED.findall(line.removeprefix("$ ")):
                yield shlex.split(words, comments=True)
    yield from (shlex.split(words) for words in _CODE.findall(_FENCE.sub("", text)))


def fault(words: list[str]) -> str | None:
    """Why a line is not taken; a command that is only named may lack what it needs."""
    try:
        parse(words)
    except SystemExit:  # of `--help`
        return None
    except InputError as error:
        named_only = len(words) == 1 and str(error).startswith("missing:")
        return None if named_only or words[:1] == ["COMMAND"] else f"{words}: {error}"
    return None


def test_every_command_line_of_a_page_is_taken() -> None:
    assert not [
        (page.name, why)
        for page in PAGES
        for words in typed_lines(page.read_text("utf-8"))
        if (why := fault(words))
    ]


def test_lines_that_are_not_taken_are_found() -> None:
    page = "Type `crosswind rn`.\n```sh\ncd x && crosswind run --dri-run   # see\n```\n"
    assert [fault(words) is None for words in typed_lines(page)] == [False, False]
