"""Whatever people read of two small workspaces is, to the byte, what was recorded."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from tests.golden.outputs import OUTPUTS, kept

_MOST_LINES: Final = 100
_LONGEST_LINE: Final = 300


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        old, new = (outputs.get(name, "").splitlines() for outputs in (before, after))
        for line in difflib.unified_diff(old, new, f"recorded/{name}", name, lineterm="", n=1):
            yield line[:_LONGEST_LINE]
        if (name in before) != (name in after) or (old == new and before[name] != after[name]):
            yield f"{name}: other files, or other ends of lines"


@pytest.mark.parametrize("workspace", OUTPUTS)
def test_outputs_are_as_recorded(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = OUTPUTS[workspace](tmp_path)
    found = [*islice(differences(kept(workspace), made), _MOST_LINES)]
    if found:
        pytest.fail(
            "\n".join(["`python -m tests.golden` records them anew", *found]), pytrace=False
        )
