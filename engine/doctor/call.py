"""A call of a few tokens to each model, sent by what sends the calls of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.doctor.findings import Area, Finding, State
from engine.doctor.models import ModelInUse
from engine.errors import CrosswindError, InputError
from engine.providers.accounts import Accounts
from engine.providers.course import Patience
from engine.providers.endpoint import Endpoint
from engine.providers.model import Attempt, Message, Speaks
from engine.providers.prices import Prices
from engine.providers.real import real_model

TOKENS: Final = 16
"""Some servers refuse a smaller limit."""

_QUESTION: Final = (Message(Speaks.USER, "Say yes."),)


async def call(models: Sequence[ModelInUse], prices: Prices, *, longest_s: float) -> list[Finding]:
    """Calls all at once; the findings come in the order of the models."""
    accounts = Accounts(patience=_ONCE, prices=prices)
    try:
        calls = [
            _call(model, model.endpoint, accounts, longest_s)
            for model in models
            if model.endpoint is not None
        ]
        return list(await asyncio.gather(*calls))
    finally:
        await accounts.close()


_ONCE: Final = Patience(tries=1, stalls=1, empties=1, trying_s=0, refused_s=0, unreachable_s=0)
"""A person waits: what fails is told and not tried again."""


async def _call(
    in_use: ModelInUse, endpoint: Endpoint, accounts: Accounts, longest_s: float
) -> Finding:
    label = in_use.spec.label
    brief = replace(endpoint, params=replace(endpoint.params, max_tokens=TOKENS))
    attempts: list[Attempt] = []
    try:
        endpoint.key()
    except InputError:
        return Finding(Area.CALL, label, State.NOTE, "was not called, as its key is missing")
    try:
        async with asyncio.timeout(longest_s):
            model = real_model(brief, accounts, label=label).telling(attempts.append)
            await model.reply(_QUESTION)
    except TimeoutError:
        sentence = f"no answer within {longest_s:g} s"
    except CrosswindError as error:
        sentence = in_use.without_path(str(error).removeprefix(f"{label}: "))
    else:
        return Finding(Area.CALL, label, State.OK, _answer(attempts))
    return Finding(Area.CALL, label, State.PROBLEM, sentence)


def _answer(attempts: Sequence[Attempt]) -> str:
    last = attempts[-1]
    began = "" if last.first_token_ms is None else f", first word after {last.first_token_ms} ms"
    costs = [attempt.usage.cost_usd for attempt in attempts if attempt.outcome == "answer"]
    known = [cost for cost in costs if cost is not None]
    cost = f"${sum(known):.6f}" if len(known) == len(costs) else "price not known"
    refused = len(attempts) - 1
    again = f", after {refused} refused for a parameter" if refused else ""
    return f"answered in {last.duration_ms} ms{began}, {cost}{again}"
