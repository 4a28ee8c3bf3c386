"""A conversation as a document to read. What models and files say is text in it, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.benchmark import Speaker
from engine.display import clean, one_line
from engine.exporting.selection import Conversation
from engine.store.mirror_rows import SCRIPTED_NOTE
from engine.store.records import StoredMessage, StoredVerdict

_ACTS: Final = re.compile(r"[\\`*_\[\]<>&~|$@{}]|(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
"""What Markdown, or a common extension of it, would take for more than a character."""
_BEGINS: Final = re.compile(r"([#+=!-]|\d{1,9}[.)])")
"""The same where a line begins."""
_ANSWERS: Final = {True: "passed", False: "failed", None: "unscored"}


def escaped(text: str) -> str:
    """One line of foreign text, shown as it is and read as nothing else."""
    plain = _ACTS.sub(r"\\\g<0>", clean(text.expandtabs(4)))
    blank = len(plain) - len(plain.lstrip(" "))
    rest = plain[blank:]
    begins = _BEGINS.match(rest)
    if begins is not None:
        at = begins.end() - 1
        rest = f"{rest[:at]}\\{rest[at:]}"
    return "&nbsp;" * blank + rest


def quoted(text: str) -> Iterator[str]:
    """Foreign text as a block that nothing in it can end; its line breaks stay."""
    lines = text.splitlines() or [""]
    for line, follows in zip(lines, [*lines[1:], ""], strict=True):
        if not line.strip():
            yield ">"
            continue
        broken = "\\" if follows.strip() else ""
        yield f"> {escaped(line)}{broken}"


def document(one: Conversation) -> Iterator[str]:
    """Its lines."""
    take = one.take
    yield f"# {escaped(str(take.key))}"
    yield ""
    if one.scripted:
        yield f"*{SCRIPTED_NOTE[0].upper()}{SCRIPTED_NOTE[1:]}.*"
        yield ""
    yield from _facts(one)
    yield ""
    yield from _scenario(one)
    yield "## Conversation"
    for message in one.messages:
        yield ""
        yield from _message(message)
    yield ""
    yield "## Verdicts"
    for verdict in one.verdicts:
        yield ""
        yield from _verdict(verdict)
    if not one.verdicts:
        yield ""
        yield "There is none yet."


def _facts(one: Conversation) -> Iterator[str]:
    take = one.take
    reason = "" if one.unscored is None else f" ({one_line(one.unscored)})"
    ended = "interrupted" if take.stop_reason is None else take.stop_reason.value
    metric = "" if one.metric is None else f"{one.metric.name} ({one.metric.track})"
    facts = {
        "benchmark": one.benchmark,
        "metric": metric,
        "target": f"{take.key.target_id} ({take.model})",
        "user model": take.user_model,
        "take": f"{take.number}, ended: {ended.replace('_', ' ')}",
        "result": f"{_ANSWERS[one.passed]}{reason}",
    }
    for name, value in facts.items():
        if value:
            yield f"- {name}: {escaped(one_line(value))}"


def _scenario(one: Conversation) -> Iterator[str]:
    if one.scenario is None:
        return
    parts = {
        "Persona": one.scenario.persona,
        "Goal": one.scenario.user_goal,
        "Latent goal": one.scenario.latent_adversarial_goal,
    }
    yield "## Scenario"
    for name, text in parts.items():
        yield from ("", f"{name}:", "", *quoted(text))
    if one.scenario.demographic:
        people = ", ".join(f"{axis}: {value}" for axis, value in one.scenario.demographic.items())
        yield from ("", f"Demographic: {escaped(one_line(people))}")
    yield ""


def _message(message: StoredMessage) -> Iterator[str]:
    who = "User" if message.speaker is Speaker.USER else "Target"
    yield f"### Turn {message.turn}, {who}"
    if message.landmark:
        yield from ("", f"Landmark: {escaped(one_line(message.landmark, 2000))}")
    yield ""
    yield from quoted(message.text)
    if message.thought:
        yield from ("", "Thought:", "", *quoted(message.thought))
    if message.reasoning:
        yield from ("", "Reasoning:", "", *quoted(message.reasoning))


def _verdict(verdict: StoredVerdict) -> Iterator[str]:
    reason = "" if verdict.unscored is None else f": {verdict.unscored}"
    present = {True: "present", False: "absent", None: "open"}[verdict.present]
    told = f"{_ANSWERS[verdict.passed]}{reason}, {present}, about {verdict.metric_id}"
    yield f"### {escaped(one_line(verdict.judge))}, pass {verdict.number + 1}"
    yield from ("", escaped(one_line(told)), "", *quoted(verdict.justification))
    for quote in verdict.quotes:
        where = "not found in the transcript" if quote.turn is None else f"turn {quote.turn}"
        yield from ("", f"Evidence, {where}:", "", *quoted(quote.text))
