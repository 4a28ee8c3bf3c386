"""The values that go over the link, as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from math import isfinite
from typing import Final

from engine.benchmark import ConversationKey, Speaker, Stage
from engine.facts import Speech
from engine.link import Answer, Board, Command, EngineState, Identity, Limit, Request, Row, Wait
from engine.pipeline.order import Order, PriceRange
from engine.service.fields import Fields, MessageError, as_text, as_whole

Json = Mapping[str, object]


def key_as_json(key: ConversationKey) -> list[object]:
    return [key.scenario_id, key.target_id, key.sample]


def key_from_json(value: object) -> ConversationKey:
    match value:
        case [str(scenario), str(target), int(sample)]:
            return ConversationKey(scenario, target, sample)
        case _:
            raise MessageError("a conversation: expected [scenario, target, sample]")


def speech_as_json(speech: Speech) -> Json:
    return {
        "benchmark": speech.benchmark,
        "key": key_as_json(speech.key),
        "take": speech.take,
        "turn": speech.turn,
        "speaker": speech.speaker,
        "landmark": speech.landmark,
        "began": speech.began,
    }


def speech_from_json(value: object) -> Speech:
    """A board comes several times a second and nearly all that it says is spoken was spoken before,
    so what was checked once is not checked again."""
    match value:
        case {"key": [str(scenario), str(target), int(sample)], **rest}:
            try:
                return _known_speech(scenario, target, sample, *map(rest.get, _SPEECH))
            except TypeError:  # something in it is a list or an object, which it is told below
                pass
    return _checked_speech(value)


_SPEECH: Final = ("benchmark", "take", "turn", "speaker", "landmark", "began")
SPEECHES_KEPT: Final = 4096


@lru_cache(SPEECHES_KEPT, typed=True)
def _known_speech(scenario: str, target: str, sample: int, *rest: object) -> Speech:
    return _checked_speech(
        {"key": [scenario, target, sample], **dict(zip(_SPEECH, rest, strict=True))}
    )


def _checked_speech(value: object) -> Speech:
    fields = Fields(value, "a speech")
    return Speech(
        benchmark=fields.text("benchmark"),
        key=key_from_json(fields.value("key")),
        take=fields.whole("take"),
        turn=fields.whole("turn"),
        speaker=fields.word("speaker", Speaker),
        landmark=fields.text_or_none("landmark"),
        began=fields.number("began"),
    )


def board_as_json(board: Board) -> Json:
    return {
        "state": board.state,
        "speaking": [speech_as_json(speech) for speech in board.speaking],
        "problem": board.problem,
        "waits": [_wait_as_json(wait) for wait in board.waits],
        "parked": dict(board.parked),
        "concurrency": dict(board.concurrency),
        "between": dict(board.between),
        "notices": list(board.notices),
        "engine": None if board.engine is None else identity_as_json(board.engine),
        "said": dict(board.said),
        "spent_usd": board.spent_usd,
        "budget_usd": board.budget_usd,
        "quote": _quote_as_json(board.quote),
        "agreed_usd": board.agreed_usd,
        "rest_usd": board.rest_usd,
        "question": board.question,
        "workspace_budget_usd": board.workspace_budget_usd,
        "workspace_spent_usd": board.workspace_spent_usd,
        "limits": [_limit_as_json(limit) for limit in board.limits],
    }


def board_from_json(value: object) -> Board:
    fields = Fields(value, "a board")
    engine = fields.value("engine")
    concurrency = fields.pairs("concurrency", as_whole)
    return Board(
        state=fields.word("state", EngineState),
        speaking=tuple(fields.each("speaking", speech_from_json)),
        problem=fields.text_or_none("problem"),
        waits=tuple(fields.each("waits", _wait_from_json)),
        parked=fields.pairs("parked", as_text),
        concurrency={_stage(name): number for name, number in concurrency.items()},
        between=fields.pairs("between", as_whole),
        notices=tuple(fields.each("notices", as_text)),
        engine=None if engine is None else identity_from_json(engine),
        said=fields.pairs("said", as_whole),
        spent_usd=fields.number_or_none("spent_usd"),
        budget_usd=fields.number_or_none("budget_usd"),
        quote=_quote_from_json(fields.value("quote")),
        agreed_usd=fields.number_or_none("agreed_usd"),
        rest_usd=fields.number_or_none("rest_usd"),
        question=fields.text_or_none("question"),
        workspace_budget_usd=fields.number_or_none("workspace_budget_usd"),
        workspace_spent_usd=fields.number_or_none("workspace_spent_usd"),
        limits=tuple(fields.each("limits", _limit_from_json)),
    )


def _wait_as_json(wait: Wait) -> Json:
    known = wait.seconds is not None and isfinite(wait.seconds)
    seconds = wait.seconds if known else None
    return {"model": wait.model, "why": wait.why, "seconds": seconds, "calls": wait.calls}


def _wait_from_json(value: object) -> Wait:
    fields = Fields(value, "a wait")
    return Wait(
        model=fields.text("model"),
        why=fields.text("why"),
        seconds=fields.number_or_none("seconds"),
        calls=fields.whole("calls"),
    )


def _quote_as_json(quote: PriceRange | None) -> Json | None:
    return None if quote is None else asdict(quote)


def _quote_from_json(value: object) -> PriceRange | None:
    if value is None:
        return None
    fields = Fields(value, "a quote")
    return PriceRange(
        fields.number("low_usd"),
        fields.number("high_usd"),
        fields.number("expected_usd"),
        binding=fields.flag("binding"),
    )


def _limit_as_json(limit: Limit) -> Json:
    return {"model": limit.model, "at_once": limit.at_once, "waiting": limit.waiting}


def _limit_from_json(value: object) -> Limit:
    fields = Fields(value, "a limit")
    return Limit(fields.text("model"), fields.whole("at_once"), fields.whole("waiting"))


def identity_as_json(identity: Identity) -> Json:
    return {"pid": identity.pid, "host": identity.host, "since": identity.since.isoformat()}


def identity_from_json(value: object) -> Identity:
    fields = Fields(value, "an engine")
    try:
        since = datetime.fromisoformat(fields.text("since"))
    except ValueError as error:
        raise MessageError(f"an engine: 'since' is not a time: {error}") from error
    return Identity(fields.whole("pid"), fields.text("host"), since)


def request_as_json(request: Request) -> Json:
    return {
        "command": request.command,
        "rows": [[row.benchmark, row.unit] for row in request.rows],
        "target": request.target,
        "stage": request.stage,
        "number": request.number,
        "evaluator": request.evaluator,
        "order": None if request.order is None else _order_as_json(request.order),
        "quote": _quote_as_json(request.quote),
    }


def request_from_json(value: object) -> Request:
    fields = Fields(value, "a request")
    order = fields.value("order")
    return Request(
        command=fields.word("command", Command),
        rows=tuple(fields.each("rows", _row_from_json)),
        target=fields.text_or_none("target"),
        stage=fields.word_or_none("stage", Stage),
        number=fields.whole_or_none("number"),
        evaluator=fields.text_or_none("evaluator"),
        order=None if order is None else _order_from_json(order),
        quote=_quote_from_json(fields.value("quote")),
    )


def _row_from_json(value: object) -> Row:
    match value:
        case [str(benchmark), str(unit)]:
            return Row(benchmark, unit)
        case _:
            raise MessageError("a row of work: expected [benchmark, unit]")


def _order_as_json(order: Order) -> Json:
    return {
        "benchmarks": list(order.benchmarks),
        "stages": sorted(order.stages),
        "targets": None if order.targets is None else sorted(order.targets),
        "force": order.force,
        "stale": order.stale,
        "again": {
            name: [key_as_json(key) for key in sorted(keys)] for name, keys in order.again.items()
        },
        "only": {name: sorted(units) for name, units in order.only.items()},
        "evaluator": order.evaluator,
        "quote": _quote_as_json(order.quote),
    }


def _order_from_json(value: object) -> Order:
    fields = Fields(value, "an order")
    targets = fields.value("targets")
    return Order(
        benchmarks=tuple(fields.each("benchmarks", as_text)),
        stages=frozenset(fields.each("stages", lambda name: _stage(as_text(name)))),
        targets=None if targets is None else frozenset(fields.each("targets", as_text)),
        force=fields.flag("force"),
        stale=fields.flag("stale"),
        again=fields.pairs("again", _keys),
        only=fields.pairs("only", _units),
        evaluator=fields.text_or_none("evaluator"),
        quote=_quote_from_json(fields.value("quote")),
    )


def _keys(value: object) -> frozenset[ConversationKey]:
    if isinstance(value, list):
        return frozenset(map(key_from_json, value))
    raise MessageError("an order: 'again' does not hold lists of conversations")


def _units(value: object) -> frozenset[str]:
    if isinstance(value, list):
        return frozenset(map(as_text, value))
    raise MessageError("an order: 'only' does not hold lists of ids")


def _stage(name: str) -> Stage:
    try:
        return Stage(name)
    except ValueError:
        raise MessageError(f"{name!r} is not a stage: expected one of {', '.join(Stage)}") from None


def answer_as_json(answer: Answer) -> Json:
    return {"accepted": answer.accepted, "text": answer.text}


def answer_from_json(value: object) -> Answer:
    fields = Fields(value, "an answer")
    return Answer(accepted=fields.flag("accepted"), text=fields.text("text"))
