"""What is known of a run afterwards: that it came to its end, was stopped, or broke off."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.schema import ModelSpec
from engine.errors import StoreError
from engine.facts import RunEnd
from engine.pipeline.models import open_offline
from engine.providers.model import Model
from tests.engine.small_workspace import Place, small_workspace
from tests.models import failing


def end_of(place: Place) -> RunEnd | None:
    with place.reader() as reader:
        return reader.snapshot().run_end


def test_a_run_that_did_everything_is_done(played: Place) -> None:
    assert end_of(played) is RunEnd.DONE


def test_a_run_that_broke_off_does_not_pass_for_done(tmp_path: Path) -> None:
    fault = failing(StoreError("it cannot be written"))

    def opener(spec: ModelSpec) -> Model:
        return fault if spec.model == "evaluator" else open_offline(spec)

    place = small_workspace(tmp_path).heard_by(opener)
    with pytest.raises(StoreError):
        place.run()
    assert end_of(place) is RunEnd.BROKEN
