"""What is known of a run afterwards: that it came to its end, was stopped, or broke off."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.facts import RunEnd
from tests.engine.small_workspace import Place, small_workspace
from tests.models import failing, opening


def end_of(place: Place) -> RunEnd | None:
    with place.reader() as reader:
        return reader.snapshot().run_end


def test_a_run_that_broke_off_does_not_pass_for_done(tmp_path: Path) -> None:
    fault = failing(StoreError("it cannot be written"))
    place = small_workspace(tmp_path).heard_by(opening({"evaluator": fault}))
    with pytest.raises(StoreError):
        place.run()
    assert end_of(place) is RunEnd.BROKEN
