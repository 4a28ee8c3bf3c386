"""A short call to each model, in its role, sent by the same code as a run's calls."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.config.secrets import Environment
from engine.doctor.findings import Area, Diagnostic, Severity
from engine.doctor.models import ModelInUse
from engine.errors import CrosswindError, InputError
from engine.pipeline.models import ModelOpener, refuse_or_name
from engine.providers.accounts import Accounts
from engine.providers.http.pool import open_transport
from engine.providers.model import (
    Attempt,
    Finish,
    JsonSchema,
    Message,
    MessageRole,
    Model,
    ReportingModel,
)
from engine.providers.retry import RetryPolicy
from engine.stages.answers import Answer, ask, schema_of
from engine.stages.evaluate import Judgement, judgement_schema
from engine.stages.generate import GeneratedMetrics
from engine.stages.simulate import UserTurn

_PLAIN: Final = (Message(MessageRole.USER, "Say yes."),)
_SHAPED: Final = (
    Message(MessageRole.SYSTEM, "This is a trial of the form of your answers. Keep them short."),
    Message(MessageRole.USER, "Fill in each field with a few words, and each list with one entry."),
)
_SHAPES: Final[dict[str, tuple[type[Answer], JsonSchema]]] = {
    "user model": (UserTurn, schema_of(UserTurn)),
    "evaluator": (Judgement, judgement_schema(replies=1)),
    "generator": (GeneratedMetrics, schema_of(GeneratedMetrics)),
}
"""The form of each role's answers in a run, and its schema. A target's replies have none."""


async def call(
    models: Sequence[ModelInUse], environment: Environment, *, longest_s: float
) -> list[Diagnostic]:
    """Call every model once as a run does, with the form and token limit of its role. The findings
    are in the order of the models, those of this machine first."""
    accounts = Accounts(
        retry_policy=_ONCE,
        open_transport=lambda address: open_transport(address, connect_s=_CONNECT_S),
    )
    own = [model for model in models if model.endpoint is None]
    others = [model for model in models if model.endpoint is not None]
    try:
        # one at a time on this machine, as a model or a module may need much memory
        diagnostics = [await _call(model, environment, accounts, longest_s) for model in own]
        calls = (_call(model, environment, accounts, longest_s) for model in others)
        diagnostics += await asyncio.gather(*calls)
    finally:
        await accounts.close()
    times = Counter(finding.subject for finding in diagnostics)
    return [
        # several entries may have the same model: their roles tell them apart
        replace(finding, sentence=f"{', '.join(model.roles)} · {finding.sentence}")
        if times[finding.subject] > 1
        else finding
        for model, finding in zip([*own, *others], diagnostics, strict=True)
    ]


_CONNECT_S: Final = 10.0
"""Half of what a run allows: a person is waiting, and no other call takes part of the time."""
_ONCE: Final = RetryPolicy(tries=1, stalls=1, empties=1, trying_s=0, refused_s=0, unreachable_s=0)
"""A person is waiting: failures are reported, not retried."""


async def _call(
    in_use: ModelInUse, environment: Environment, accounts: Accounts, longest_s: float
) -> Diagnostic:
    label = in_use.spec.label
    attempts: list[Attempt] = []
    notes: list[str] = []
    try:
        if in_use.endpoint is not None:
            in_use.endpoint.key()
    except InputError:
        return Diagnostic(Area.CALL, label, Severity.NOTE, "was not called, as its key is missing")
    model = ModelOpener(environment, accounts, notes.append)(in_use.spec)
    if isinstance(model, ReportingModel):
        model = model.in_session(f"doctor-{secrets.token_hex(8)}").telling(attempts.append)
    notes.clear()  # notes about its address are reported elsewhere
    try:
        async with asyncio.timeout(longest_s):
            cut = await _answered(model, in_use.roles)
    except TimeoutError:
        sentence = f"no answer within {longest_s:g} s"
    except CrosswindError as error:
        sentence = in_use.without_path(str(error).removeprefix(f"{label}: "))
    else:
        other = _other_model_words(attempts, in_use.spec.model)
        sentences = [
            _answer(attempts),
            *other[:1],
            *(note.removeprefix(f"{label} ") for note in notes),
        ]
        if cut:
            sentences.append("its one-word reply was cut, by max_tokens or a limit of the server")
        state = Severity.NOTE if cut or other else Severity.OK
        remedy = other[1] if other else None
        return Diagnostic(Area.CALL, label, state, "; ".join(sentences), remedy)
    return Diagnostic(Area.CALL, label, Severity.PROBLEM, sentence)


async def _answered(model: Model, roles: Sequence[str]) -> bool:
    """Whether a plain reply was cut at its limit. Raises `ModelError`, also for an answer in a form
    that was cut."""
    form = next((_SHAPES[role] for role in roles if role in _SHAPES), None)
    if form is None:
        return (await model.reply(_PLAIN)).finish is Finish.LENGTH
    shape, schema = form
    await ask(model, _SHAPED, shape, schema=schema)
    return False


def _other_model_words(attempts: Sequence[Attempt], asked: str) -> tuple[str, ...]:
    """A sentence and a remedy if another model answered; else empty."""
    last = attempts[-1]
    if not last.is_other or last.served is None:
        return ()
    way = "" if last.route is None else f" ({last.route})"
    return f"{last.served} answered in place of {asked}{way}", refuse_or_name(last.served)


def _answer(attempts: Sequence[Attempt]) -> str:
    last = attempts[-1]
    began = "" if last.first_token_ms is None else f", first word after {last.first_token_ms} ms"
    costs = [
        attempt.usage.cost_usd for attempt in attempts if attempt.usage.output_tokens is not None
    ]
    known = [cost for cost in costs if cost is not None]
    cost = f"${sum(known):.6f}" if len(known) == len(costs) else "price not known"
    before = len(attempts) - 1
    again = "" if not before else f", at the {_ordinal(before + 1)} time of asking"
    return f"answered in {last.duration_ms} ms{began}, {cost}{again}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
