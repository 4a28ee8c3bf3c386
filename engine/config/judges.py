"""`evaluators`: several models that judge, each written out or named from `models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from engine.config.shown import shown
from engine.config.sources import OFFLINE
from engine.config.suggest import did_you_mean
from engine.config.yaml_text import YamlDocument
from engine.errors import Problem

ONE: Final = "evaluator_model"
SEVERAL: Final = "evaluators"

_STAND_IN: Final = {"model": "unknown", "source": "openai"}
"""In place of a name that names nothing, which is a problem of its own."""


def with_judges(document: YamlDocument) -> tuple[YamlDocument, list[Problem]]:
    """The same document with names of `evaluators` replaced by the models they name, and its first
    judge as the `evaluator_model`; and what is wrong with them."""
    given = document.data.get(SEVERAL)
    if not isinstance(given, list):
        return document, []
    problems = _both(document)
    known = _named(document)
    judges: list[Any] = []
    for number, written in enumerate(given):
        if isinstance(written, str):
            if written not in known:
                problems.append(_nobody(document, number, written, known))
            judges.append(known.get(written, _STAND_IN))
        else:
            judges.append(written)
    problems += _twice(document, judges)
    data = {**document.data, SEVERAL: judges}
    if judges:
        data.setdefault(ONE, judges[0])
    return replace(document, data=data), problems


def is_borrowed(problem: Problem, written: YamlDocument) -> bool:
    """Whether a problem lies in a model that is written elsewhere, and is told there."""
    key = problem.key or ""
    given = written.data.get(SEVERAL)
    if key.startswith(ONE) and ONE not in written.data:
        return given is not None
    return any(
        key.startswith(f"{SEVERAL}[{number}].")
        for number, judge in enumerate(given if isinstance(given, list) else [])
        if isinstance(judge, str)
    )


def _both(document: YamlDocument) -> list[Problem]:
    if ONE not in document.data:
        return []
    what = f"this stands beside `{SEVERAL}`, expected one of the two"
    hint = f"delete it, or write it as one of `{SEVERAL}`"
    return [document.problem((ONE,), what, hint=hint, of_key=True)]


def _named(document: YamlDocument) -> Mapping[str, Any]:
    """What a name of a model stands for: a target by its id, or one of `models`."""
    targets, models = document.data.get("targets"), document.data.get("models")
    return {
        target["id"]: {key: value for key, value in target.items() if key != "id"}
        for target in (targets if isinstance(targets, list) else [])
        if isinstance(target, dict) and isinstance(target.get("id"), str)
    } | {
        name: spec
        for name, spec in (models.items() if isinstance(models, dict) else ())
        if isinstance(name, str)
    }


def _nobody(document: YamlDocument, number: int, name: str, known: Mapping[str, Any]) -> Problem:
    what = f"no model is called `{shown(name)}`, expected a name in `models` or a target's id"
    return document.problem((SEVERAL, number), what, hint=did_you_mean(name, known))


def _twice(document: YamlDocument, judges: list[Any]) -> list[Problem]:
    """Verdicts are told apart by the model's name, so it must differ."""
    first: dict[tuple[bool, str], int] = {}
    problems = []
    for number, judge in enumerate(judges):
        match judge:
            case {"model": str(model), "source": str(source)} if judge is not _STAND_IN:
                label = (source.strip().lower() == OFFLINE, model)
            case _:
                continue
        known = first.setdefault(label, number)
        if known != number:
            what = (
                f"two judges have the model `{shown(model)}` (first as "
                f"{SEVERAL}[{known}]), and their verdicts could not be told apart"
            )
            hint = "to ask one judge several times, write `evaluation: {passes: 2}`"
            problems.append(document.problem((SEVERAL, number), what, hint=hint))
    return problems
