"""What is said over the link is understood as it was meant, and nonsense is refused."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime

import pytest

from engine.benchmark import ConversationKey, Speaker, Stage
from engine.facts import LiveText, Speech, Writing
from engine.link import (
    AgentStatus,
    Board,
    Command,
    EngineState,
    Identity,
    ModelLimit,
    Request,
    Wait,
    WorkRow,
)
from engine.people import (
    Decision,
    GivenLabel,
    LabelAnswer,
    LabelRequest,
    NumberedLabel,
    ReviewRequest,
    SampleDraw,
)
from engine.pipeline.order import Order, PriceRange, Rewriting
from engine.service.protocol import (
    LONGEST_FAULT,
    LONGEST_TEXT,
    BoardAsked,
    CommandAsked,
    MessageError,
    SomeText,
    TextAsked,
    WatcherMessage,
    encode_asked,
    encode_goodbye,
    encode_ok,
    read,
    read_question,
    read_said,
)

KEY = ConversationKey("m01_s001_v01", "steadfast", 2)
SPEECH = Speech("steadiness", KEY, 1, 3, Speaker.USER, "Says “no”.\x1b[0m\n", 12.5)
QUOTE = PriceRange(0.5, 2.5, 1.25, binding=True)
BOARD = Board(
    EngineState.PAUSED,
    (SPEECH, dataclasses.replace(SPEECH, landmark=None)),
    "the disk is full",
    (Wait("openai:gpt", "429", 2.5, 3, ("steadfast",)), Wait("a", "b", None)),
    {"steadfast": "quota"},
    {Stage.SIMULATE: 8},
    ("config.yaml was edited",),
    Identity(17, "here", datetime(2026, 5, 1, 12, 30, 1, 5, tzinfo=UTC)),
    {"steadfast": 12},
    1.25,
    5.0,
    (ModelLimit("openai:gpt", 8, 42, ("steadfast",)),),
    {"steadfast": 3},
    QUOTE,
    2.5,
    0.75,
    "may it cost more?",
    (AgentStatus("n7-3", "n7", 12, 100, 3.5, 0.25),),
    benchmarks=("a",),
    waiting_messages=2,
    stages=(Stage.SIMULATE,),
    writing=(Writing("a", Stage.EVALUATE, "m01_s001__t", "reasoning: It"),),
)
ORDER = Order(
    ("a", "b"),
    frozenset({Stage.EVALUATE}),
    frozenset({"steadfast"}),
    force=True,
    stale=True,
    again={"a": frozenset({KEY})},
    only={"b": frozenset({"m01"})},
    evaluator="another",
    quote=QUOTE,
    replay=True,
    resubmit=True,
    pilot=2,
    rewrite={"a": Rewriting(Stage.GEN_SCENARIOS, "m01_s001", "m01", "less", "Ann", "ann@here")},
)
LABELS = LabelRequest(
    "a",
    SampleDraw(60, "7", "Ann", "ann@here"),
    12,
    (NumberedLabel(3, GivenLabel(LabelAnswer.PRESENT, (1, 2), "Says so.", 3, 12.5)),),
    Decision(str(KEY), present=True, reason="Reply 2.", by="Cleo"),
)
REVIEW = ReviewRequest(
    "a", "edit", "Ann", "ann@here", ("m01",), "too much", "id: m01", {"m01": "digest"}
)
REQUEST = Request(
    Command.RUN,
    (WorkRow("a", "m01_s001"), WorkRow("b", str(KEY))),
    "steadfast",
    Stage.SIMULATE,
    4,
    "strict",
    ORDER,
    QUOTE,
    LABELS,
    REVIEW,
)


@pytest.mark.parametrize(
    "value",
    [BOARD, ORDER, REQUEST, LABELS, REVIEW, SPEECH, BOARD.waits[0], BOARD.engine, BOARD.agents[0]],
)
def test_the_examples_leave_nothing_at_its_default(value: object) -> None:
    """So that a field that is added and forgotten here is noticed by the tests below."""
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        defaults = (field.default, field.default_factory)
        held = getattr(value, field.name)
        assert held != field.default, (field.name, defaults)
        assert held, field.name


@pytest.mark.parametrize(
    "asked",
    [
        BoardAsked(3),
        TextAsked("a", KEY, 40, SPEECH),
        TextAsked("a", KEY),
        CommandAsked(REQUEST),
        CommandAsked(Request(Command.PAUSE)),
        CommandAsked(Request(Command.RUN, order=Order(("a",)))),
    ],
)
def test_a_question_is_understood_as_it_was_asked(asked: WatcherMessage) -> None:
    line = encode_asked(7, asked)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    question = read_question(line)
    assert question.id == 7
    assert question.read() == asked


@pytest.mark.parametrize("board", [BOARD, Board(EngineState.IDLE, ())])
def test_a_board_is_understood_as_it_was_told(board: Board) -> None:
    said = read_said(encode_ok(1, board))
    assert read(said.ok, Board) == board
    assert read_said(encode_goodbye(board)).goodbye == board


@pytest.mark.parametrize(
    "text", ["", "a\nb\r\x00\x1b", "é漢😀", "half \ud83d of it \udc00", "\u2028"]
)
def test_any_text_that_a_model_can_send_survives(text: str) -> None:
    heard = LiveText(SPEECH, text, 100 + len(text))
    line = encode_ok(1, SomeText.of(heard))
    assert line.isascii()
    found = read(read_said(line).ok, SomeText)
    assert found.heard == heard
    assert found.start == 100
    assert not found.more


@pytest.mark.parametrize("character", ["a", "é", "😀", "\ud83d"])
def test_an_answer_holds_only_so_much_of_a_long_text(character: str) -> None:
    said = character * 400_000
    collected, cursor = "", 0
    for _ in range(100):
        line = encode_ok(1, SomeText.of(LiveText(SPEECH, said[cursor:], len(said))))
        assert len(line) < LONGEST_TEXT + 2000
        found = read(read_said(line).ok, SomeText)
        collected, cursor = collected + found.heard.text, found.heard.cursor
        if not found.more:
            break
    assert collected == said


def test_what_is_not_known_is_ignored() -> None:
    line = encode_asked(7, BoardAsked()).rstrip()[:-1] + b',"colour":"red"}\n'
    assert read_question(line).read() == BoardAsked()


def test_another_version_is_refused_by_name_of_both() -> None:
    question = read_question(b'{"v":9,"id":4,"ask":"board"}')
    with pytest.raises(MessageError, match=r"version 2 of the link and the watcher version 9"):
        question.read()


A_KEY = {"scenario_id": "a", "target_id": "b"}
NONSENSE: list[object] = [
    [],
    {"id": True, "v": 2, "ask": "board"},
    {"id": 1, "ask": "board"},
    {"id": 1, "v": 2, "ask": "dance"},
    {"id": 1, "v": 2, "ask": "text", "benchmark": "a", "key": ["a", "b", 0]},
    {"id": 1, "v": 2, "ask": "text", "benchmark": "a", "key": A_KEY, "cursor": -1},
    {"id": 1, "v": 2, "ask": "command", "request": {"command": "format"}},
    {"id": 1, "v": 2, "ask": "command", "request": {"command": "retry", "rows": ["a"]}},
    {"id": 1, "v": 2, "ask": "command", "request": {"command": "run", "number": 1.5}},
]


@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_nonsense_is_refused(value: object) -> None:
    with pytest.raises(MessageError):
        read_question(json.dumps(value).encode()).read()


@pytest.mark.parametrize(
    "asked",
    [
        {"ask": "x" * 1_000_000},
        {"ask": "text", "benchmark": "a", "key": {"x" * 1_000_000: 1}},
        {"ask": "command", "request": {"command": "x" * 1_000_000}},
    ],
    ids=["a question", "a key", "a command"],
)
def test_a_refusal_says_where_and_holds_only_so_much_of_what_is_refused(
    asked: dict[str, object],
) -> None:
    with pytest.raises(MessageError, match=r"at `\$\.") as refused:
        read_question(json.dumps({"id": 1, "v": 2, **asked}).encode()).read()
    assert len(str(refused.value)) < LONGEST_FAULT + 10


def test_a_question_as_deep_as_json_goes_is_read_no_deeper_than_messages_go() -> None:
    depth = sys.getrecursionlimit() // 2
    deep = b'{"request":' * depth + b"1" + b"}" * depth
    with pytest.raises(MessageError):
        read_question(b'{"id":1,"v":2,"ask":"command","request":' + deep + b"}").read()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe\x00",
        b'{"id":NaN}',
        b"[" * 100_000,
        b'{"id":' + b"9" * 10_000 + b"}",
        b'{"id":1}{"id":2}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_not_json_is_refused(line: bytes) -> None:
    with pytest.raises(MessageError):
        read_question(line)
