"""A workspace in which whatever a model, a file or a server can say is hostile."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.benchmark import (
    ConversationKey,
    Landmark,
    Role,
    Scenario,
    Speaker,
    Stage,
    State,
    StopReason,
    Track,
    Usage,
)
from engine.facts import NoteKind
from engine.store.tables import (
    AttemptRow,
    MessageRow,
    NoteRow,
    Quote,
    ScenarioRow,
    TakeEndRow,
    TakeRow,
    Verdict,
)
from tests.tui.theatre import BENCHMARK, TARGETS, Take, Theatre, a_scenario

EACH_KIND: Final = (
    "\x1b[2J\x9b2J\u202e\u2066\x07\x9d0;P\x9c\x00\x7f\x0e\r\u200b\u2028\U000e0041"
    "[@click=app.quit]X[/]"
)
"""One of each, in so few characters that a narrow cell has room for it."""
HOSTILE: Final = " ".join(
    (
        EACH_KIND,
        "\x1b[6n\x1b[31mPWNED\x1b[?1049l\x1bc",
        "\x1b]0;PWNED\x07\x1b]52;c;UFdORUQ=\x1b\\\x1b]9;PWNED\x07",
        "\x1b]8;;http://PWNED\x1b\\link\x1b]8;;\x1b\\",
        "\x1bP+q5057\x1b\\\x1b_PWNED\x1b\\\x1b^PWNED\x1b\\",
        "\x9b31m\x9d0;PWNED\x9c\x90PWNED\x9c\x85\x84",
        "\x08\x0b\x0c\x0f\x7f\u2067\u200e\u200f\u061c\u2029\ufeff\u00ad\U000e0042\ufff9",
        "a" + "\u0301" * 40,
        "[red] [/unbalanced [link=http://PWNED]x",
    )
)
SPOKEN_ONLY: Final = "\ud800 " + HOSTILE
"""What no store takes, but a wire may bring."""
IN_NAMES: Final = "".join(char for char in EACH_KIND if char not in "\x00/") + "PWNED"
"""What a name of a file may hold."""
SCENARIO: Final = "m01_s001_v01"
STRANGE: Final = ConversationKey(f"m01_s003{IN_NAMES}", f"steadfast{IN_NAMES}")
"""Ids as no file of ours has them, in a store that somebody else made."""


def quoted(text: str) -> str:
    """As YAML takes any character."""
    inside = (
        f"\\U{ord(char):08x}" if char in '"\\' or ord(char) > 126 or ord(char) < 32 else char
        for char in text
    )
    return '"' + "".join(inside) + '"'


def workspace_in(folder: Path) -> Path:
    """Where its workspace is; its own name is hostile as well."""
    return folder / IN_NAMES


def write_files(folder: Path) -> Path:
    root = workspace_in(folder)
    place = root / "benchmarks" / BENCHMARK
    place.mkdir(parents=True)
    (root / "benchmarks" / IN_NAMES).mkdir()
    said, key = quoted(HOSTILE), quoted(EACH_KIND)
    offline = "source: offline, params: {pace: instant}"
    (root / "config.yaml").write_text(
        f"""\
user_model: {{model: user, {offline}}}
evaluator_model: {{model: {said}, source: openai, base_url: "http://localhost:9/"}}
generation: {{scenarios_per_metric: 2, turns: 2, num_samples: 1}}
demographics: {{{key}: [{said}, older]}}
models:
  strict: {{model: {said}, source: openai, base_url: "http://localhost:9/", apikey: "${{NOT_SET}}"}}
targets:
  - {{id: {TARGETS[0]}, model: steadfast, {offline}}}
  - {{id: {TARGETS[1]}, model: {said}, source: openai, base_url: "http://localhost:9/"}}
""",
        "utf-8",
    )
    (place / "benchmark.yaml").write_text(
        f"""\
name: {said}
description: {said}
contributor: {said}
scenario: {{user_context: {said}}}
metrics:
  - {{id: m01, name: {said}, type: positive, definition: {said}, examples: [{said}]}}
""",
        "utf-8",
    )
    return root


def write_faulty_files(folder: Path) -> Path:
    """Of which nothing can be read, and everything is told."""
    root = folder / "faulty"
    place = root / "benchmarks" / BENCHMARK
    place.mkdir(parents=True)
    said, key = quoted(HOSTILE), quoted(EACH_KIND)
    (root / "config.yaml").write_text(f"{key}: {said}\ntargets: [{{id: {said}, model: 3}}]\n")
    (place / "benchmark.yaml").write_text(f"{key}: 1\nmetrics: [{{id: {said}, type: {said}}}]\n")
    (place / "scenarios.json").write_text(json.dumps([{"id": HOSTILE, HOSTILE: HOSTILE}]))
    return root


async def write_store(theatre: Theatre) -> None:
    """One conversation was judged by three, one talks, what can fail has failed."""
    await theatre.note(NoteKind.RUN_STARTED, text=HOSTILE)
    scenarios = [hostile_scenario(number) for number in (1, 2)]
    strange = replace(scenarios[0], id=STRANGE.scenario_id)
    for each in (*scenarios, strange):
        [seq] = await theatre.write(ScenarioRow(benchmark=BENCHMARK, scenario=each, source="model"))
        theatre.scenarios[each.id] = seq
    elsewhere = replace(scenarios[0], id="m01_s000_v01")
    await theatre.write(ScenarioRow(benchmark=EACH_KIND, scenario=elsewhere, source="model"))
    for target in TARGETS:
        take = await play(theatre, ConversationKey(SCENARIO, target))
        for passed in (True, False):
            await judge(theatre, take, passed=passed)
    await judge(theatre, await play(theatre, STRANGE), passed=None)
    await judge(theatre, await play(theatre, ConversationKey(SCENARIO, TARGETS[0]), 1), passed=True)
    failed = await play(theatre, ConversationKey("m01_s002_v01", TARGETS[0]), ended=False)
    await theatre.write(
        TakeEndRow(take=failed.seq, stop_reason=StopReason.TARGET_FAILED, detail=HOSTILE)
    )
    rows: tuple[tuple[Stage, str, str | None], ...] = (
        (Stage.GEN_METRICS, HOSTILE, None),
        (Stage.GEN_SCENARIOS, f"m01_s009{HOSTILE}", None),
        (Stage.SIMULATE, str(failed.key), failed.key.target_id),
        (Stage.EVALUATE, str(STRANGE), STRANGE.target_id),
    )
    for stage, unit, whose in rows:
        await theatre.move(stage, unit, State.FAILED, whose, f"{HOSTILE} failed")
    await play(theatre, ConversationKey("m01_s002_v01", TARGETS[1]), ended=False)
    await theatre.write(
        NoteRow(kind=NoteKind.WARNING, benchmark="", text=HOSTILE),
        NoteRow(kind=NoteKind.WARNING, benchmark=HOSTILE, text=HOSTILE),
    )


def hostile_scenario(number: int) -> Scenario:
    return replace(
        a_scenario(number),
        persona=HOSTILE,
        user_goal=HOSTILE,
        latent_adversarial_goal=HOSTILE,
        landmarks=(Landmark(1, HOSTILE), Landmark(2, HOSTILE)),
        demographic={HOSTILE: HOSTILE},
        target_system_prompt=HOSTILE,
        extra={HOSTILE: HOSTILE},
    )


async def play(
    theatre: Theatre, key: ConversationKey, number: int = 0, *, ended: bool = True
) -> Take:
    row = TakeRow(
        benchmark=BENCHMARK,
        key=key,
        number=number,
        scenario_seq=theatre.scenarios[key.scenario_id],
        user_model=HOSTILE,
        model=HOSTILE,
        scripted=False,
    )
    [seq] = await theatre.write(row)
    take = Take(key, seq, number)
    for turn in (1, 2):
        for speaker in Speaker:
            await say(theatre, take, turn, speaker)
    if ended:
        await theatre.write(TakeEndRow(take=seq, stop_reason=StopReason.TURN_LIMIT, detail=HOSTILE))
        for stage in (Stage.SIMULATE, Stage.EVALUATE):
            await theatre.move(stage, str(key), State.DONE, key.target_id)
    return take


async def say(theatre: Theatre, take: Take, turn: int, speaker: Speaker) -> None:
    await theatre.write(
        MessageRow(
            take=take.seq,
            turn=turn,
            speaker=speaker,
            text=f"# {HOSTILE}\n- `{HOSTILE}`\n```{HOSTILE}\n{HOSTILE}\n```",
            thought=HOSTILE,
            landmark=HOSTILE,
            finish=HOSTILE,
            reasoning=HOSTILE,
        ),
        AttemptRow(
            benchmark=BENCHMARK,
            stage=Stage.SIMULATE,
            unit=str(take.key),
            target=take.key.target_id,
            role=Role.TARGET,
            model=HOSTILE,
            outcome=HOSTILE,
            status=429,
            duration_ms=900,
            usage=Usage(1, 120, 0, 60, 0.01),
            detail=HOSTILE,
        ),
    )


async def judge(theatre: Theatre, take: Take, *, passed: bool | None) -> None:
    await theatre.write(
        Verdict(
            take=take.seq,
            metric_id="m01",
            track=Track.POSITIVE,
            judge=HOSTILE,
            source="model",
            number=0,
            present=passed,
            passed=passed,
            unscored=None if passed is not None else HOSTILE,
            justification=HOSTILE,
            quotes=(Quote(HOSTILE, 1), Quote(HOSTILE, None)),
        )
    )
