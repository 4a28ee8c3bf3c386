"""A short call to each model in its role, sent by what sends the calls of a run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from engine.doctor.findings import Area, Diagnostic, Severity
from engine.doctor.models import ModelInUse
from engine.errors import CrosswindError, InputError
from engine.pipeline.models import refuse_or_name
from engine.providers.accounts import Accounts
from engine.providers.endpoint import Endpoint
from engine.providers.model import Attempt, Finish, Message, Model, Speaks
from engine.providers.pricing import Prices
from engine.providers.real import real_model
from engine.providers.retry import RetryPolicy
from engine.stages.answers import Answer, ask
from engine.stages.evaluate import Judgement
from engine.stages.gen_metrics import GeneratedMetrics
from engine.stages.simulate import UserTurn

_PLAIN: Final = (Message(Speaks.USER, "Say yes."),)
_SHAPED: Final = (
    Message(Speaks.SYSTEM, "This is a trial of the form of your answers. Keep them short."),
    Message(Speaks.USER, "Fill in each field with a few words, and each list with one entry."),
)
_SHAPES: Final[dict[str, type[Answer]]] = {
    "user model": UserTurn,
    "evaluator": Judgement,
    "generator": GeneratedMetrics,
}
"""What each role is asked for in a run. A target is asked for no form."""


async def call(
    models: Sequence[ModelInUse], prices: Prices, *, longest_s: float
) -> list[Diagnostic]:
    """Asks each model once, in the form and with the limit that a run will use. Calls all at once;
    the findings come in the order of the models."""
    accounts = Accounts(retry_policy=_ONCE, prices=prices)
    try:
        calls = [
            _call(model, model.endpoint, accounts, longest_s)
            for model in models
            if model.endpoint is not None
        ]
        return list(await asyncio.gather(*calls))
    finally:
        await accounts.close()


_ONCE: Final = RetryPolicy(tries=1, stalls=1, empties=1, trying_s=0, refused_s=0, unreachable_s=0)
"""A person waits: what fails is told and not tried again."""


async def _call(
    in_use: ModelInUse, endpoint: Endpoint, accounts: Accounts, longest_s: float
) -> Diagnostic:
    label = in_use.spec.label
    attempts: list[Attempt] = []
    notes: list[str] = []
    try:
        endpoint.key()
    except InputError:
        return Diagnostic(Area.CALL, label, Severity.NOTE, "was not called, as its key is missing")
    model = real_model(endpoint, accounts, label=label, on_note=notes.append)
    model = model.in_session(f"doctor-{secrets.token_hex(8)}")
    notes.clear()  # what is said of its address is said elsewhere
    try:
        async with asyncio.timeout(longest_s):
            cut = await _answered(model.telling(attempts.append), in_use.roles)
    except TimeoutError:
        sentence = f"no answer within {longest_s:g} s"
    except CrosswindError as error:
        sentence = in_use.without_path(str(error).removeprefix(f"{label}: "))
    else:
        other = _other(attempts, endpoint.model)
        told = [_answer(attempts), *other[:1], *(note.removeprefix(f"{label} ") for note in notes)]
        if cut:
            told.append("its reply of a word was cut, by max_tokens or a limit of the server")
        state = Severity.NOTE if cut or other else Severity.OK
        return Diagnostic(Area.CALL, label, state, "; ".join(told), *other[1:])
    return Diagnostic(Area.CALL, label, Severity.PROBLEM, sentence)


async def _answered(model: Model, roles: Sequence[str]) -> bool:
    """Whether a plain reply was cut at its limit; an answer of a form that is cut is none.

    Raises `ModelError`."""
    shape = next((_SHAPES[role] for role in roles if role in _SHAPES), None)
    if shape is None:
        return (await model.reply(_PLAIN)).finish is Finish.LENGTH
    await ask(model, _SHAPED, shape)
    return False


def _other(attempts: Sequence[Attempt], asked: str) -> tuple[str, ...]:
    """That another model answered, and what to do about it; empty where none did."""
    last = attempts[-1]
    if not last.is_other or last.served is None:
        return ()
    way = "" if last.route is None else f" ({last.route})"
    return f"{last.served} answered in place of {asked}{way}", refuse_or_name(last.served)


def _answer(attempts: Sequence[Attempt]) -> str:
    last = attempts[-1]
    began = "" if last.first_token_ms is None else f", first word after {last.first_token_ms} ms"
    costs = [one.usage.cost_usd for one in attempts if one.usage.output_tokens is not None]
    known = [cost for cost in costs if cost is not None]
    cost = f"${sum(known):.6f}" if len(known) == len(costs) else "price not known"
    before = len(attempts) - 1
    again = "" if not before else f", at the {_ordinal(before + 1)} time of asking"
    return f"answered in {last.duration_ms} ms{began}, {cost}{again}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
