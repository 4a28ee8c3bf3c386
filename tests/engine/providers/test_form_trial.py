"""A server that fails under a form of answer, and only there, is told from one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from engine.providers.accounts import Accounts
from engine.providers.form_trial import (
    FAILURES_FIRST,
    TURNS_TO_BLAME,
    FormFailures,
    FormTrial,
)
from engine.providers.real import RealModel
from tests.engine.providers.conftest import Bench, Call, call
from tests.protocol_server.faults import Detail, Fault, upto
from tests.protocol_server.request import Request

SHAPE = {
    "title": "judgement",
    "type": "object",
    "properties": {"present": {"type": "boolean"}},
    "required": ["present"],
    "additionalProperties": False,
}
NOTE = "target x fails with a 500 if a form is asked for, and not without: asked for JSON in the "


def under_form(request: Request) -> bool:
    return request.response_format is not None


def outcomes(done: list[Call]) -> list[list[str]]:
    return [one.outcomes for one in done]


def tried(failures: int) -> list[str]:
    return ["transient"] * failures + ["answer"]


def test_a_server_that_fails_under_a_form_and_not_without_is_asked_without_it(
    bench: Bench,
) -> None:
    bench.model = "evaluator"
    bench.server.plan(Fault.SERVER_ERROR, match=under_form)
    done = bench.calls(TURNS_TO_BLAME + 2, schema=SHAPE)
    first, *others = outcomes(done)
    assert first == tried(FAILURES_FIRST)
    assert others == [tried(1)] * (TURNS_TO_BLAME - 1) + [tried(0)] * 2
    assert all(one.reply is not None and '"present"' in one.reply.text for one in done)
    assert bench.notes == [f"{NOTE}prompt"]


def test_it_is_learned_from_an_error_in_the_stream_as_well(openai_bench: Bench) -> None:
    """As llama-server says it, whose reply is checked against the form at its end."""
    bench = openai_bench
    bench.model = "evaluator"
    bench.server.plan(Fault.ERROR_EVENT, match=under_form, detail=Detail(status=500))
    done = bench.calls(TURNS_TO_BLAME + 1, schema=SHAPE)
    assert outcomes(done)[0] == tried(FAILURES_FIRST)
    assert outcomes(done)[-1] == tried(0)


def test_an_outage_teaches_nothing_however_many_calls_it_meets(bench: Bench) -> None:
    """It ends while all of them ask without a form, so that each of those is answered."""
    bench.model = "evaluator"
    at_once = 2 * TURNS_TO_BLAME
    bench.server.plan(Fault.SERVER_ERROR, when=upto(FAILURES_FIRST * at_once))

    async def run(accounts: Accounts, model: RealModel) -> list[Call]:
        done = await asyncio.gather(*(call(model, schema=SHAPE) for _ in range(at_once)))
        return [*done, await call(bench.open(accounts), schema=SHAPE)]

    *_, last = bench.play(run)
    assert last.outcomes == tried(0)
    assert bench.server.requests[-1].response_format == "json_schema"
    assert bench.notes == []


def test_a_server_that_always_fails_is_asked_without_a_form_once_a_call(bench: Bench) -> None:
    bench.server.plan(Fault.SERVER_ERROR)
    done = bench.call(schema=SHAPE)
    assert done.outcomes == ["transient"] * bench.retry_policy.tries
    asked = [under_form(request) for request in bench.server.requests]
    assert asked == [True] * FAILURES_FIRST + [False] + [True] * (len(asked) - FAILURES_FIRST - 1)


def test_what_is_refused_without_a_form_is_no_reason_to_ask_without_it_again(
    bench: Bench,
) -> None:
    """What that refusal teaches is learned for requests with the form."""
    bench.model = "evaluator"
    bench.server.plan(Fault.SERVER_ERROR, match=under_form, when=upto(FAILURES_FIRST))
    bench.server.plan(Fault.BAD_REQUEST, match=lambda request: not under_form(request))
    done = bench.call(schema=SHAPE)
    assert done.outcomes[FAILURES_FIRST] == "fatal_request"
    assert bench.notes == []


def turn(known: FormFailures) -> bool:
    """A call that fails under a form and is answered without it; whether the form is to blame."""
    trial = FormTrial(known)
    trial.sent_under_form()
    while not trial.failed_under_form():
        trial.sent_under_form()
    return trial.answered_without_form()


def test_the_form_is_to_blame_after_some_turns_and_no_fewer() -> None:
    known = FormFailures()
    blamed = [turn(known) for _ in range(TURNS_TO_BLAME)]
    assert blamed == [False] * (TURNS_TO_BLAME - 1) + [True]


@pytest.mark.parametrize("shows", [FormTrial.answered_under_form, FormTrial.failed_without_form])
def test_an_answer_under_a_form_and_a_failure_without_one_begin_anew(
    shows: Callable[[FormTrial], None],
) -> None:
    known = FormFailures()
    for _ in range(TURNS_TO_BLAME - 1):
        turn(known)
    shows(FormTrial(known))
    assert not turn(known)
    assert known.turns == 1
