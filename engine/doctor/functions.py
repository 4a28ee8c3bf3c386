"""Whether the functions that are measured can be imported and, where they may be, what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from engine.config.schema import Target
from engine.config.secrets import Environment
from engine.doctor.findings import Area, Diagnostic, Severity
from engine.doctor.models import ModelInUse
from engine.errors import CrosswindError
from engine.pipeline.models import ModelOpener, function_place
from engine.providers.accounts import Accounts
from engine.providers.functions.model import unusable
from engine.providers.model import Message, MessageRole, TakesSession


async def look_at_functions(
    models: Sequence[ModelInUse], environment: Environment, *, call: bool, longest_s: float
) -> list[Diagnostic]:
    """One finding for each function, in the order of the models. Where it is called, that it can be
    imported goes without saying."""
    found = []
    for model in models:
        target = model.spec
        if not isinstance(target, Target) or target.call is None:
            continue
        why = await unusable(function_place(target.call, environment))
        if why is not None:
            sentence, remedy = f"cannot be called: {why}", "see `call` in config.yaml"
            found.append(Diagnostic(Area.MODELS, target.label, Severity.PROBLEM, sentence, remedy))
        elif call:
            found.append(await _called(target, environment, longest_s))
        else:
            sentence = "was imported; `crosswind doctor --call` calls it"
            found.append(Diagnostic(Area.MODELS, target.label, Severity.OK, sentence))
    return found


async def _called(target: Target, environment: Environment, longest_s: float) -> Diagnostic:
    accounts = Accounts()
    model = ModelOpener(environment, accounts, lambda _note: None)(target)
    if isinstance(model, TakesSession):
        model = model.in_session("doctor")
    began = time.monotonic()
    try:
        async with asyncio.timeout(longest_s):
            await model.reply([Message(MessageRole.USER, "Say yes.")])
    except TimeoutError:
        sentence = f"no answer within {longest_s:g} s"
    except CrosswindError as error:
        sentence = str(error).removeprefix(f"{target.label}: ")
    else:
        took = round((time.monotonic() - began) * 1000)
        sentence = f"answered in {took} ms, its process started for it"
        return Diagnostic(Area.CALL, target.label, Severity.OK, sentence)
    finally:
        await accounts.close()
    return Diagnostic(Area.CALL, target.label, Severity.PROBLEM, sentence)
