"""What is known of a run afterwards: that it came to its end, was stopped, or broke off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.config.schema import ModelSpec
from engine.errors import StoreError
from engine.facts import RunEnd
from engine.pipeline.models import open_offline
from engine.providers.model import JsonSchema, Message, Model, OnText, Reply
from tests.engine.small_workspace import Place, small_workspace


class Faulty:
    """A model that meets a fault which concerns every row."""

    label = "faulty"
    scripted = True

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        raise StoreError("it cannot be written")


def end_of(place: Place) -> RunEnd | None:
    with place.reader() as reader:
        return reader.snapshot().run_end


def test_a_run_that_did_everything_is_done(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.run()
    assert end_of(place) is RunEnd.DONE


def test_a_run_that_broke_off_does_not_pass_for_done(tmp_path: Path) -> None:
    def opener(spec: ModelSpec) -> Model:
        return Faulty() if spec.model == "evaluator" else open_offline(spec)

    place = small_workspace(tmp_path).heard_by(opener)
    with pytest.raises(StoreError):
        place.run()
    assert end_of(place) is RunEnd.BROKEN
