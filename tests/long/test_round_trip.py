"""30,240 conversations go out into files and come back, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.importing import rows
from tests.benchmarks.synthetic import CONVERSATIONS, Size


@pytest.mark.timeout(1800)
def test_what_is_imported_searched_summed_up_and_mirrored_comes_back_whole(tmp_path: Path) -> None:
    found = rows(tmp_path, Size(CONVERSATIONS))
    assert [row.takes for row in found if "facts that differ" in row.what] == ["0", "0"]
