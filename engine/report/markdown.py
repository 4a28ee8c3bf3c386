"""A conversation as a document to read. What models and files say is text in it, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.benchmark import Speaker
from engine.display import clean, one_line
from engine.quotes import why_not_found
from engine.report.selection import Conversation
from engine.store.records import others_who_spoke
from engine.store.tables import MessageRow, Verdict

_ACTS: Final = "\\`*_[]<>&~|$@{}"
"""What Markdown, or a common extension of it, would take for more than a character; the backslash
comes first, as the others are given one."""
_LINKS: Final = (
    re.compile(r":(?=//)(?<=[A-Za-z]:)", re.IGNORECASE),
    re.compile(r"\.(?<=www\.)", re.IGNORECASE),
)
"""The same within an address. A character is found many times as quick as a look behind it."""
_BEGINS: Final = re.compile(r"([#+=!-]|\d{1,9}[.)])")
"""The same where a line begins."""
_ANSWERS: Final = {True: "passed", False: "failed", None: "unscored"}


def escaped(text: str) -> str:
    """One line of foreign text, shown as it is and read as nothing else."""
    return _begun(_inert(clean(text.expandtabs(4))))


def _inert(plain: str) -> str:
    """Nothing within a line is read as more than a character; of several lines at once."""
    for one in _ACTS:
        if one in plain:
            plain = plain.replace(one, f"\\{one}")
    for link in _LINKS:
        plain = link.sub(r"\\\g<0>", plain)
    return plain


def _begun(line: str) -> str:
    """Nor is how the line begins."""
    if line[:1].isalpha():
        return line
    rest = line.lstrip(" ")
    begins = _BEGINS.match(rest)
    if begins is not None:
        at = begins.end() - 1
        rest = f"{rest[:at]}\\{rest[at:]}"
    return "&nbsp;" * (len(line) - len(line.lstrip(" "))) + rest


def quoted(text: str) -> list[str]:
    """Foreign text as lines of a block that nothing in it can end; its line breaks stay."""
    lines = _shown_lines(text)
    return [
        ">" if line is None else f"> {line}" if follows is None else f"> {line}\\"
        for line, follows in zip(lines, [*lines[1:], None], strict=True)
    ]


def _shown_lines(text: str) -> list[str | None]:
    """At least one; None for a blank one."""
    lines = text.splitlines() or [""]
    if not all(map(str.isprintable, lines)):
        return [escaped(line) if line.strip() else None for line in lines]
    if not text.isascii():  # what is printable is escaped all at once
        lines = [line if line.isascii() else clean(line) for line in lines]
    return [
        line if line[:1].isalpha() else _begun(line) if line.strip() else None
        for line in _inert("\n".join(lines)).split("\n")
    ]


def document(one: Conversation) -> list[str]:
    """Its lines."""
    lines = [f"# {escaped(str(one.take.key))}", ""]
    if (note := one.scripted_note) is not None:
        lines += (f"*{escaped(note[0].upper() + note[1:])}.*", "")
    lines += (*_fact_lines(one), "", *_scenario_lines(one), "## Conversation")
    for message in one.messages:
        lines += _message_lines(message)
    lines += ("", "## Verdicts")
    for verdict in one.verdicts:
        lines += _verdict_lines(verdict)
    if not one.verdicts:
        lines += ("", "There is none yet.")
    return lines


def _fact_lines(one: Conversation) -> Iterator[str]:
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
    facts["not as asked"] = "; ".join(others_who_spoke(one.messages, take))
    for name, value in facts.items():
        if value:
            yield f"- {name}: {escaped(one_line(value))}"


def _scenario_lines(one: Conversation) -> Iterator[str]:
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


def _message_lines(message: MessageRow) -> list[str]:
    who = "User" if message.speaker is Speaker.USER else "Target"
    other = "" if message.served_by is None else f", from {escaped(one_line(message.served_by))}"
    lines = ["", f"### Turn {message.turn}, {who}{other}"]
    if message.landmark:
        lines += ("", f"Landmark: {escaped(one_line(message.landmark, 2000))}")
    lines += ("", *quoted(message.text))
    if message.thought:
        lines += ("", "Thought:", "", *quoted(message.thought))
    if message.reasoning:
        lines += ("", "Reasoning:", "", *quoted(message.reasoning))
    return lines


def _verdict_lines(verdict: Verdict) -> list[str]:
    reason = "" if verdict.unscored is None else f": {verdict.unscored}"
    present = {True: "present", False: "absent", None: "open"}[verdict.present]
    told = f"{_ANSWERS[verdict.passed]}{reason}, {present}, about {verdict.metric_id}"
    other = "" if verdict.served_by is None else f", from {escaped(one_line(verdict.served_by))}"
    lines = ["", f"### {escaped(one_line(verdict.judge))}, pass {verdict.number + 1}{other}"]
    lines += ("", escaped(one_line(told)), "", *quoted(verdict.justification))
    for quote in verdict.quotes:
        where = why_not_found(quote.text) if quote.turn is None else f"turn {quote.turn}"
        lines += ("", f"Evidence, {where}:", "", *quoted(quote.text))
    return lines
