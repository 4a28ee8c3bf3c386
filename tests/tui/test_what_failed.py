"""What failed, as it is listed, and how it is tried again by keys."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from engine.benchmark import Role, Stage, State, StopReason, Usage
from engine.facts import NoteKind
from engine.link import Command, EngineState, Request, WorkRow
from engine.pipeline.remedies import KnownFailure, failure_kind
from engine.store.tables import AttemptRow
from tests.approval import approve, lines_with
from tests.tui.theatre import BENCHMARK, TARGETS, Pilot, Theatre, moved, on_screen, told, told_rows
from tui.screens.conversation import ConversationScreen
from tui.screens.failures import FOLDED_FROM
from tui.screens.live import LiveScreen
from tui.services.palette import commands, matching
from tui.widgets.key_line import KeyLine

SHAPELESS = "offline:evaluator was asked 3 times and its answer: no `present`"


async def some_failures(theatre: Theatre) -> None:
    await theatre.prepare()
    await theatre.end(await theatre.begin(1), StopReason.TARGET_FAILED)
    await theatre.end(await theatre.begin(2), StopReason.TARGET_FAILED)
    take = await theatre.play(1, TARGETS[1])
    await theatre.move(Stage.EVALUATE, str(take.key), State.FAILED, TARGETS[1], SHAPELESS)


def row_of(scenario: int, target: str) -> WorkRow:
    return WorkRow(BENCHMARK, f"m01_s{scenario:03d}_v01__{target}")


def offered(pilot: Pilot, typed: str = "") -> set[str]:
    """The names that the palette lists."""
    known = commands(pilot.app, pilot.app.screen)
    return {command.name for command in matching(known, typed)}


@pytest.mark.terminal(80, 24)
async def test_where_nothing_failed_no_key_does_anything_until_something_fails(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(), passed=True)
    await theatre.open(pilot, "3", "right_curly_bracket")
    assert "[Verdicts]" in on_screen(pilot)
    await theatre.open(pilot, "X")
    assert "[All]" in on_screen(pilot)
    assert "nothing failed" not in on_screen(pilot)
    assert "Nothing has failed." in on_screen(pilot)
    assert "pane" not in on_screen(pilot).splitlines()[-1]
    assert not {"try again", "all again", "mark"} & offered(pilot)
    assert "try again" in offered(pilot, "try again")
    await pilot.press("a", "A", "space", "enter", "j")
    assert theatre.link.requests == []
    await theatre.end(await theatre.begin(2), StopReason.TARGET_FAILED)
    # ten times what the list took to be made, however slow the machine
    await theatre.tick(pilot, 600)
    await theatre.tick(pilot)
    assert "1 failed" in on_screen(pilot)
    assert {"try again", "all again"} <= offered(pilot)


async def test_failures_are_grouped_by_kind_with_what_to_do_and_lead_to_conversations(
    theatre: Theatre, pilot: Pilot
) -> None:
    await some_failures(theatre)
    await theatre.open(pilot, "3", "X")
    shown = on_screen(pilot)
    assert "3 failed" in shown
    assert "may pass" not in shown
    approve(lines_with(shown, "▾ 2 the provider has", "▾ 1 the answer had"))
    assert str(row_of(1, TARGETS[0]).unit) in shown
    assert "Try again later" in told(pilot)
    rows = [line for line in shown.splitlines() if "✗ simulate" in line]
    assert ["as above" in row for row in rows] == [False, True]

    await theatre.press(pilot, "enter")
    approve(lines_with(on_screen(pilot), "▸ 2 the provider has"))
    await theatre.press(pilot, "down", "down")
    assert SHAPELESS in told(pilot)
    await theatre.press(pilot, "home", "enter", "j", "enter")
    assert isinstance(pilot.app.screen, ConversationScreen)
    assert "m01_s001_v01__steadfast" in on_screen(pilot)
    await theatre.press(pilot, "q")
    assert "3 failed" in on_screen(pilot)

    # one that is tried again goes, and the cursor stays on its row
    await pilot.press("j")
    unit = row_of(1, TARGETS[0]).unit
    await theatre.move(Stage.SIMULATE, unit, State.RUNNING, TARGETS[0])
    await theatre.tick(pilot, 600)
    await theatre.tick(pilot)
    assert "2 failed" in on_screen(pilot)
    assert row_of(2, TARGETS[0]).unit in told(pilot)
    take = await theatre.play(2, TARGETS[1])
    refused = "401: the key was refused"
    await theatre.move(Stage.EVALUATE, str(take.key), State.FAILED, TARGETS[1], refused)
    await theatre.tick(pilot, 600)
    await theatre.tick(pilot)
    approve(lines_with(on_screen(pilot), "3 failed  2 may pass"))


async def test_rows_of_several_benchmarks_are_told_apart_and_a_group_tells_its_reasons(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await some_failures(theatre)
    theatre.watch.benchmarks = [
        *theatre.watch.benchmarks,
        replace(theatre.watch.benchmarks[0], name="another"),
    ]
    row = moved(Stage.EVALUATE, f"m01_s001_v01__{TARGETS[1]}", State.FAILED, None, SHAPELESS)
    await theatre.write(replace(row, benchmark="another"))
    await theatre.open(pilot, "3", "X")
    lines = [" ".join(line.split()) for line in on_screen(pilot).splitlines()]
    at = f"✗ evaluate m01_s001_v01__{TARGETS[1]} "
    places = {line.removeprefix(at).split()[0] for line in lines if line.startswith(at)}
    assert places == {BENCHMARK, "another"}
    await theatre.press(pilot, "end", "up", "up")
    assert f"2× {SHAPELESS}" in told(pilot)


async def test_many_rows_are_folded_and_each_group_says_how_many_and_whose(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for number in range(FOLDED_FROM):
        unit = f"m01_s{number:03d}_v01__{TARGETS[number % 3 == 0]}"
        target = TARGETS[number % 3 == 0]
        await theatre.move(Stage.SIMULATE, unit, State.FAILED, target, "a: 429: rate limit")
    await theatre.move(Stage.EVALUATE, "m01_s001_v01__a", State.FAILED, None, SHAPELESS)
    await theatre.open(pilot, "3", "X")
    lines = [" ".join(line.split()) for line in on_screen(pilot).splitlines()]
    third = -(-FOLDED_FROM // 3)
    whose = f"{TARGETS[0]} {FOLDED_FROM - third} {TARGETS[1]} {third}"
    groups = [line for line in lines if line.startswith("▸ ")]
    assert groups[0].endswith(f" {whose}")
    approve(groups)
    shown = on_screen(pilot).splitlines()
    starts = {line.index("the ") for line in shown if line.startswith(" ▸ ")}
    assert len(starts) == 1  # numbers of one digit and of two end in one column

    assert "Enter unfold" in on_screen(pilot)
    await theatre.press(pilot, "enter")
    assert f"▾ {FOLDED_FROM} the provider" in on_screen(pilot)
    assert "Enter fold" in on_screen(pilot)

    await theatre.press(pilot, "down", "space", "space", "home", "enter")
    lines = [" ".join(line.split()) for line in on_screen(pilot).splitlines()]
    assert "2 marked" in lines[0]
    approve([line for line in lines if line.startswith("▸ ")])


async def test_a_failure_tells_how_its_calls_went_the_newest_first(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin(1)
    for number, outcome in enumerate(("stalled", "rate_limited")):
        await theatre.write(
            AttemptRow(
                benchmark=BENCHMARK,
                stage=Stage.SIMULATE,
                unit=str(take.key),
                target=take.key.target_id,
                role=Role.TARGET,
                model="openai:gpt",
                outcome=outcome,
                status=429 if number else None,
                duration_ms=400 + number,
                usage=Usage(1, None, None, None, None),
                detail=f"429: rate limit\x1b[2J; request req_{number}",
            )
        )
    await theatre.end(take, StopReason.TARGET_FAILED)
    await theatre.open(pilot, "3", "X")
    await theatre.press(pilot, "down")
    await theatre.tick(pilot)
    text = told(pilot)
    approve(lines_with(told_rows(pilot), "openai:gpt", "429: rate"))
    assert text.index("request req_1") < text.index("request req_0")
    assert "\x1b" not in text

    await theatre.end(await theatre.begin(2), StopReason.TARGET_FAILED)
    # the list waits ten times as long as it took to make
    await theatre.tick(pilot, 600)
    await theatre.press(pilot, "down")
    await theatre.tick(pilot)
    approve(lines_with(told_rows(pilot), "None was made"))


async def test_one_the_marked_a_group_or_all_are_tried_again(
    theatre: Theatre, pilot: Pilot
) -> None:
    await some_failures(theatre)
    await theatre.open(pilot, "3", "X")
    first, second = row_of(1, TARGETS[0]), row_of(2, TARGETS[0])
    third = row_of(1, TARGETS[1])

    await pilot.press("a")
    await theatre.answered(pilot)
    await pilot.press("j", "a")
    await theatre.answered(pilot)
    await theatre.press(pilot, "space", "G", "space")
    assert "2 marked" in on_screen(pilot)
    await pilot.press("a")
    await theatre.answered(pilot)
    await pilot.press("A")
    await theatre.answered(pilot)
    assert [set(request.rows) for request in theatre.link.requests] == [
        {first, second},
        {first},
        {first, third},
        {first, second, third},
    ]
    assert set(theatre.link.commands) == {Command.RETRY}


def test_a_parked_target_is_called_again(theatre: Theatre) -> None:
    theatre.link.parked = {TARGETS[0]: "401: the key was refused"}

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.open(pilot, "3", "X")
        assert f"‖ {TARGETS[0]}  parked: 401" in on_screen(pilot)
        await pilot.press("a")
        await theatre.answered(pilot)
        assert theatre.link.requests == [Request(Command.UNPARK, target=TARGETS[0])]

    theatre.perform(script)


def test_without_an_engine_one_would_be_started(theatre: Theatre) -> None:
    theatre.watch.link = None

    async def script(pilot: Pilot) -> None:
        await some_failures(theatre)
        await theatre.open(pilot, "3", "X")
        await theatre.press(pilot, "A")
        while "only by the command line" not in " ".join(on_screen(pilot).split()):
            await pilot.pause()

    theatre.perform(script)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("gpt: 401: the key was refused (parked; check apikey)", KnownFailure.REFUSED_KEY),
        ("gpt: 402: the account has no credit", KnownFailure.NO_CREDIT),
        ("a: a.gguf: its server could not be started: 404", KnownFailure.LOCAL_SERVER),
        (
            "gpt: no connection (econnrefused), after 8 tries (parked; check base_url of gpt)",
            KnownFailure.OUT_OF_REACH,
        ),
        (
            "gpt: there is no such host (parked; check base_url of gpt)",
            KnownFailure.OUT_OF_REACH,
        ),
        ("gpt: the server's certificate is not trusted (parked; check)", KnownFailure.WAY_BLOCKED),
        (
            "a: the two sides do not agree on TLS (b:80 does not speak TLS: write",
            KnownFailure.WAY_BLOCKED,
        ),
        (
            "a: 400: the server expects TLS: write https:// in base_url (a web",
            KnownFailure.WAY_BLOCKED,
        ),
        ("a: 400: the key was refused (No connected db.) (parked", KnownFailure.REFUSED_KEY),
        ("a: 400: there is no such model (Invalid model name", KnownFailure.NO_SUCH_MODEL),
        ("a: 400: max_tokens is more than the model has room for (8", KnownFailure.BAD_REQUEST),
        (
            "gpt: 301: the server redirects elsewhere (http://b/v1/chat) (parked",
            KnownFailure.WAY_BLOCKED,
        ),
        ("gpt: 403: the proxy does not let it through", KnownFailure.WAY_BLOCKED),
        ("gpt: 407: the proxy asks for a password", KnownFailure.WAY_BLOCKED),
        (
            "gpt: 502: the proxy found no way to the server, after 8 tries",
            KnownFailure.OUT_OF_REACH,
        ),
        (
            "gpt: 400: the request was not accepted (credit balance, 429)",
            KnownFailure.BAD_REQUEST,
        ),
        (
            "model gpt: the variable GPT_KEY is not set (looked in .env)",
            KnownFailure.REFUSED_KEY,
        ),
        ("gpt: 404: there is no such model, or the address is wrong", KnownFailure.NO_SUCH_MODEL),
        ("gpt: 429: rate limit (slow down)", KnownFailure.TOO_BUSY),
        ("HTTP 529: overloaded, 8 of 8 tries", KnownFailure.TOO_BUSY),
        ("host could not be reached for 300 s", KnownFailure.OUT_OF_REACH),
        ("the model fell silent", KnownFailure.SILENT),
        (SHAPELESS, KnownFailure.WRONG_SHAPE),
        ("the model refused to answer", KnownFailure.WITHHELD),
        ("the provider's content filter withheld the answer", KnownFailure.WITHHELD),
        ("the request is longer than the model's context", KnownFailure.TOO_LONG),
        ("m: the reply is too large (more events than any model's)", KnownFailure.NO_REPLIES),
        ("m: 413: the request is too large", KnownFailure.TOO_LONG),
        ("gpt: 400: the request was not accepted (temperature)", KnownFailure.BAD_REQUEST),
        ("gpt: 500: the server failed", KnownFailure.PROVIDER_FAULT),
        (
            "gpt: the proxy could not be reached (proxy:3128: econnrefused), after 8 tries",
            KnownFailure.OUT_OF_REACH,
        ),
        ("gpt: the answer is not valid HTTP, after 8 tries", KnownFailure.NO_REPLIES),
        (
            "gpt: 200: the server sent something that is no reply (text/html in place of a stream)",
            KnownFailure.NO_REPLIES,
        ),
        ("something else", KnownFailure.OTHER),
        ("long-context-13b: 500: the server failed", KnownFailure.PROVIDER_FAULT),
        ("budget-gpt: 429: rate limit", KnownFailure.TOO_BUSY),
        ("quote-model: 401: the key was refused", KnownFailure.REFUSED_KEY),
        ("gpt: the model answered with no JSON, after 3 tries", KnownFailure.WRONG_SHAPE),
        ("gpt: the model answered with nothing, after 3 tries", KnownFailure.EMPTY_ANSWER),
        ("gpt: max_tokens is more than the model has room for", KnownFailure.BAD_REQUEST),
        ("j was asked 3 times and its answer: `quotes` is no list", KnownFailure.WRONG_SHAPE),
    ],
)
def test_every_reason_is_a_case_of_something(reason: str, kind: KnownFailure) -> None:
    assert failure_kind(reason) is kind


def footer_text(footer: KeyLine) -> str:
    return "".join(piece.text for piece in footer.row(0))


async def test_the_footer_is_that_of_the_screen_however_fast_one_got_there(
    theatre: Theatre, pilot: Pilot
) -> None:
    """Keys of one packet, the end of the run among them, and another size of the terminal."""
    await some_failures(theatre)
    await theatre.tick(pilot)
    for packet, size in (("32", (80, 24)), ("232", (120, 40)), ("2323212", (60, 20))):
        for each in packet:
            pilot.app.post_message(events.Key(each, each))
        if len(packet) > 2:
            await theatre.note(NoteKind.RUN_ENDED)
            theatre.link.state = EngineState.STOPPED
        await pilot.resize_terminal(*size)
        await theatre.tick(pilot)
        await theatre.tick(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, LiveScreen)
        footer = screen.query_one(KeyLine)
        shown = footer_text(footer)
        assert "mark" not in shown
        anew = KeyLine()
        await screen.mount(anew)
        while anew.size != footer.size:
            await theatre.tick(pilot)
        await theatre.tick(pilot)
        assert footer_text(anew) == footer_text(footer) == shown
        await anew.remove()
