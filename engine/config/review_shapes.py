"""Reads back a metric or a scenario that a person edited, with the line of every fault."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from engine.benchmark import Landmark, Metric, Scenario
from engine.config.benchmark_file import MetricShape, metric_of_shape
from engine.config.faults import in_file_order, problems_of
from engine.config.values import Listed, Shape, Words
from engine.config.yaml_text import YamlDocument, parse_yaml
from engine.errors import InputError, Problem

T = TypeVar("T", bound=BaseModel)


class LandmarkShape(Shape):
    turn: int = Field(ge=1, description="the number of a turn, from 1")
    instruction: Words = Field(description="what the person does then")


class ScenarioShape(Shape):
    """A scenario without its demographic values."""

    id: Words = Field(description="the id as it was")
    persona: Words = Field(description="who the person is, as in `You are …`")
    user_goal: Words = Field(description="what they openly want")
    latent_adversarial_goal: Words = Field(description="what they are really after")
    landmarks: Listed[LandmarkShape] = Field(
        default=(), description="a list, each with a `turn` and an `instruction`"
    )
    target_system_prompt: Words | None = Field(default=None, description="text")


def metric_from(text: str, before: Metric, path: Path) -> Metric:
    """The edited metric; faults name `path`. Raises `InputError` with all of them."""
    document = parse_yaml(text, path)
    return metric_of_shape(_validated(document, MetricShape, before.id))


def scenario_from(text: str, before: Scenario, path: Path, *, turns: int) -> Scenario:
    """The edited scenario, for conversations of `turns` turns. Raises `InputError` with all
    faults."""
    document = parse_yaml(text, path)
    shape = _validated(document, ScenarioShape, before.id)
    landmarks = tuple(Landmark(landmark.turn, landmark.instruction) for landmark in shape.landmarks)
    if problems := list(_out_of_order(document, landmarks, turns)):
        raise InputError(problems)
    return replace(
        before,
        persona=shape.persona,
        user_goal=shape.user_goal,
        latent_adversarial_goal=shape.latent_adversarial_goal,
        landmarks=landmarks,
        target_system_prompt=shape.target_system_prompt,
    )


def _out_of_order(
    document: YamlDocument, landmarks: tuple[Landmark, ...], turns: int
) -> list[Problem]:
    problems = [
        document.problem(("landmarks", number, "turn"), f"expected a turn after {landmark.turn}")
        for number, (landmark, later) in enumerate(pairwise(landmarks), start=1)
        if later.turn <= landmark.turn
    ]
    if landmarks and landmarks[-1].turn > turns:
        at = ("landmarks", len(landmarks) - 1, "turn")
        problems.append(document.problem(at, f"expected at most {turns}: a conversation's turns"))
    return problems


def _validated(document: YamlDocument, shape: type[T], name: str) -> T:
    problems: list[Problem] = []
    written_id = document.data.get("id")
    if isinstance(written_id, str) and written_id != name:
        hint = "an id cannot be changed here: what was played from it is known by it"
        problems.append(
            document.problem(("id",), f"found {written_id!r}, expected {name!r}", hint=hint)
        )
    try:
        values = shape.model_validate(document.data)
    except ValidationError as error:
        problems += problems_of(error, document, shape)
    else:
        if not problems:
            return values
    raise InputError(in_file_order(problems))
