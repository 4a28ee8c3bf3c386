"""From what the configuration calls a model to the model itself, each opened once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.benchmark import Role, Stage, Usage
from engine.config.settings import Config, ModelSpec
from engine.errors import InputError, ModelError
from engine.identity import digest
from engine.providers.model import JsonSchema, Message, Model, OnText, Reply
from engine.providers.offline.models import offline_model
from engine.store.rows import AttemptRow

Tell = Callable[[AttemptRow], None]


def model_digest(spec: ModelSpec) -> str:
    """What a fingerprint holds of a model: everything that its answers depend on, and so neither
    its key nor the pace at which a scripted one speaks."""
    params = spec.params.model_dump(mode="json", exclude_none=True, exclude={"pace"})
    return digest([spec.source, spec.model, spec.base_url, params])


def open_model(spec: ModelSpec) -> Model:
    """Raises `InputError` for a source that cannot be called."""
    if spec.source == "offline":
        return offline_model(
            spec.model, seed=spec.params.seed or 0, pace=spec.params.pace or "human"
        )
    raise InputError(
        f"model {spec.model!r} has the source {spec.source!r}, which this version cannot call; "
        "it plays `source: offline` models only"
    )


Opener = Callable[[ModelSpec], Model]


def at_pace(config: Config, pace: Literal["human", "instant"]) -> Config:
    """The same configuration, its scripted models speaking at this pace."""

    def paced(spec: ModelSpec) -> ModelSpec:
        if not spec.is_offline:
            return spec
        return spec.model_copy(update={"params": spec.params.model_copy(update={"pace": pace})})

    return config.model_copy(
        update={
            "user_model": paced(config.user_model),
            "evaluator_model": paced(config.evaluator_model),
            "generator_model": paced(config.generator),
            "targets": tuple(paced(target) for target in config.targets),
        }
    )


class Models:
    """Every model of a configuration, opened when it is first asked for."""

    def __init__(self, config: Config, opener: Opener = open_model) -> None:
        self._config = config
        self._opener = opener
        self._open: dict[int, tuple[ModelSpec, Model]] = {}
        """By identity: two that differ only in their keys are two models."""

    def open(self, spec: ModelSpec) -> Model:
        key = id(spec)
        if key not in self._open:
            self._open[key] = (spec, self._opener(spec))
        return self._open[key][1]

    def target(self, target_id: str) -> Model:
        return self.open(self.target_spec(target_id))

    def target_spec(self, target_id: str) -> ModelSpec:
        return next(target for target in self._config.targets if target.id == target_id)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A model whose every attempt becomes a row, under the row of work that it was made for."""

    model: Model
    tell: Tell
    benchmark: str
    stage: Stage
    unit: str
    role: Role
    target: str | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def scripted(self) -> bool:
        return self.model.scripted

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        began = self.clock()
        outcome, usage, detail = "cancelled", Usage(1, None, None, None, None), None
        try:
            reply = await self.model.reply(messages, schema=schema, seed=seed, on_text=on_text)
            outcome, usage = "answer", reply.usage
        except ModelError as error:
            outcome, detail = "failed", str(error)
            raise
        else:
            return reply
        finally:
            self.tell(
                AttemptRow(
                    benchmark=self.benchmark,
                    stage=self.stage,
                    unit=self.unit,
                    target=self.target,
                    role=self.role,
                    model=self.label,
                    outcome=outcome,
                    status=None,
                    duration_ms=round((self.clock() - began) * 1000),
                    usage=usage,
                    detail=detail,
                )
            )
