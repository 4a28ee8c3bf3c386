"""Conversations with all their data, as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final

from engine.analysis.comparability import unreached_landmarks
from engine.benchmark import ConversationKey, Landmark, Metric, Scenario, Speaker, Stance
from engine.display import clean, one_line
from engine.jury import Counts, NotCounted, counted_verdicts
from engine.quotes import why_not_found
from engine.scripted import scripted_note
from engine.store.mirror_rows import (
    RARE_OF_VERDICT,
    check_values,
    message_values,
    parts_of,
    scenario_values,
    take_values,
    verdict_values,
    without_unknown,
)
from engine.store.model_settings import ModelSettings, Settings, settings_words
from engine.store.reader import Reader
from engine.store.tables import (
    CheckRow,
    MessageRow,
    StoredTake,
    Verdict,
    others_of,
    others_who_spoke,
)

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Conversation:
    """A take of a conversation with all its data."""

    benchmark: str
    take: StoredTake
    verdicts: Sequence[Verdict]
    passed: bool | None
    unscored: str | None
    why_not: NotCounted | None
    """Why it counts in no result beside others; None if it does."""
    verdicts_why_not: Sequence[NotCounted | None]
    """The same for each verdict."""
    settings: Mapping[str, Settings] = field(default_factory=dict)
    """What `target` and `user_model` were asked with, as far as it is recorded."""
    verdict_settings: Sequence[Settings | None] = ()
    """The same of the judge of each verdict."""
    scenario: Scenario | None = None
    """The scenario as it was when it was played; None where it was never known."""
    metric: Metric | None = None
    messages: Sequence[MessageRow] = ()
    checks: Sequence[CheckRow] = ()

    @property
    def never_reached(self) -> list[Landmark]:
        """The landmarks that it did not reach; empty while it is unfinished, or if the user model
        was told none."""
        is_neutral = self.take.stance is Stance.NEUTRAL
        if self.scenario is None or not self.take.finished or is_neutral:
            return []
        turns = max((message.turn for message in self.messages), default=0)
        return unreached_landmarks(self.scenario.landmarks, turns)

    @property
    def scripted(self) -> bool:
        """Whether a script took part in it."""
        return self.scripted_note is not None

    @property
    def scripted_note(self) -> str | None:
        """Which parts scripts played, in words; None where they played none."""
        return scripted_note(parts_of(self.take, [verdict.judge for verdict in self.verdicts]))


def conversations(
    reader: Reader,
    benchmark: str,
    *,
    metrics: Mapping[str, Metric],
    counts: Counts | None,
    keys: Collection[ConversationKey] | None = None,
) -> Iterator[Conversation]:
    """The newest finished takes by scenario, target and sample, whether they count or not; only
    `keys` where they are given. Without `counts`, all judges vote, as nobody was configured."""
    history, known = reader.scenario_history(benchmark), ModelSettings.of(reader, benchmark)
    takes = (take for take in reader.counting_takes(benchmark) if keys is None or take.key in keys)
    # a hundred at a time: few queries, and never all transcripts in memory
    while some := list(islice(takes, _AT_ONCE)):
        by_take = reader.messages_of(take.seq for take in some)
        judged = reader.verdicts_of(take.seq for take in some)
        checked = reader.checks_of(take.seq for take in some)
        for take in some:
            stored = history.get(take.scenario_seq or 0)
            scenario = None if stored is None else stored.scenario
            yield replace(
                _judged(benchmark, counts, known, take, judged[take.seq], take.seq),
                scenario=scenario,
                metric=metrics.get(_metric_id(scenario, judged[take.seq])),
                messages=by_take[take.seq],
                checks=checked[take.seq],
            )


def takes(
    reader: Reader, benchmark: str, key: ConversationKey, counts: Counts | None
) -> Iterator[Conversation]:
    """Every take of a conversation, the newest first. Raises `StoreError`."""
    all_takes = reader.takes(benchmark, key)
    counting = next((take.seq for take in reversed(all_takes) if take.finished), None)
    known = ModelSettings.of(reader, benchmark)
    for take in reversed(all_takes):
        yield replace(
            _judged(benchmark, counts, known, take, reader.verdicts(take.seq), counting),
            scenario=reader.scenario_of(take),
            messages=reader.messages(take.seq),
            checks=reader.checks_of([take.seq])[take.seq],
        )


def _judged(
    benchmark: str,
    counts: Counts | None,
    known: ModelSettings,
    take: StoredTake,
    verdicts: Sequence[Verdict],
    counting: int | None,
) -> Conversation:
    """What was judged, by whom, and what counts; without what was said."""
    if counts is None:
        of_take, why = counted_verdicts(verdicts, None), None
    else:
        of_take = counts.verdicts_on(take, verdicts)
        why = counts.why_not_pooled(take, counting)
    return Conversation(
        benchmark=benchmark,
        take=take,
        verdicts=verdicts,
        passed=of_take.passed,
        unscored=of_take.unscored,
        why_not=why,
        verdicts_why_not=[why or of_take.why_not(verdict) for verdict in verdicts],
        settings=known.of_take(take),
        verdict_settings=[known.of_verdict(verdict) for verdict in verdicts],
    )


def _metric_id(scenario: Scenario | None, verdicts: Sequence[Verdict]) -> str:
    if scenario is not None:
        return scenario.metric_id
    return verdicts[-1].metric_id if verdicts else ""


COLUMNS: Final = (
    "benchmark conv_id id metric_id metric_name metric_type target model sample take user_model "
    "stop_reason turns demographic counts why_not passed unscored judge source pass "
    "verdict_counts verdict_why_not verdict_metric_id verdict_present verdict_passed "
    "verdict_unscored justification quotes scripted target_served_by user_served_by "
    "judge_served_by target_settings user_settings judge_settings"
).split()
"""The columns of the CSV: one row for each verdict, and one for a conversation without any."""

_DANGEROUS: Final = tuple("=+-@\t\r\n＝＋－＠")
"""A spreadsheet takes a cell that begins with one of these for a formula."""


def json_lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    """A JSON object in ASCII for each conversation, with a line end."""
    for conversation in conversations:
        # in ASCII, as some readers end a line at U+2028 and the like
        yield json.dumps(as_object(conversation), ensure_ascii=True, allow_nan=False) + "\n"


def as_object(conversation: Conversation) -> dict[str, Any]:
    """The object of a line of `crosswind export jsonl`."""
    take, scenario, metric = conversation.take, conversation.scenario, conversation.metric
    played_from: dict[str, Any] = {}
    if scenario is not None:
        played_from = {**scenario_values(scenario), "demographic": dict(scenario.demographic)}
    note = {"note": conversation.scripted_note} if conversation.scripted else {}
    return {
        **take_values(take, "benchmark conv_id id"),
        "metric_id": None if scenario is None else scenario.metric_id,
        "metric_name": None if metric is None else metric.name,
        "metric_type": None if metric is None else metric.track.value,
        **played_from,
        "target": {"id": take.key.target_id, "model": take.model},
        **take_values(take, "user_model sample take stop_reason"),
        **_settings(conversation),
        "scripted": conversation.scripted,
        **note,
        "transcript": [_message(message) for message in conversation.messages],
        **_counts(conversation.why_not),
        "passed": conversation.passed,
        "unscored": conversation.unscored,
        "verdicts": _verdicts(conversation),
        **_checks(conversation),
    }


def _counts(why_not: NotCounted | None) -> dict[str, Any]:
    return {"counts": why_not is None, "why_not": None if why_not is None else why_not.value}


def _verdicts(conversation: Conversation) -> list[dict[str, Any]]:
    pairs = zip(conversation.verdicts, conversation.verdicts_why_not, strict=True)
    objects = [{**_verdict(verdict), **_counts(why)} for verdict, why in pairs]
    for judged, settings in zip(objects, conversation.verdict_settings, strict=False):
        judged |= {} if settings is None else {"settings": settings}
    return objects


def _settings(conversation: Conversation) -> dict[str, Any]:
    """The settings; no key where none are recorded."""
    return {"settings": dict(conversation.settings)} if conversation.settings else {}


def _checks(conversation: Conversation) -> dict[str, Any]:
    """The checks; no key where there are none."""
    return (
        {"checks": [check_values(check) for check in conversation.checks]}
        if conversation.checks
        else {}
    )


def _message(message: MessageRow) -> dict[str, Any]:
    own = "landmark thought" if message.speaker is Speaker.USER else "finish reasoning"
    values = message_values(message, f"role content turn served_by {own}")
    return without_unknown(values, "served_by", "reasoning")


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return without_unknown(verdict_values(verdict, f"metric_id {_JUDGED}"), *RARE_OF_VERDICT)


_JUDGED: Final = (
    "judge source pass present passed unscored justification quotes marks served_by label"
)


def shown_take(conversation: Conversation) -> dict[str, Any]:
    """The object that `crosswind show --json` prints for a take."""
    fields = "turn role content thought landmark finish reasoning served_by"
    return {
        **take_values(
            conversation.take,
            "take target sample model user_model form scripted stop_reason user_faults",
        ),
        **_counts(conversation.why_not),
        "passed": conversation.passed,
        "unscored": conversation.unscored,
        **_settings(conversation),
        "scenario": None if conversation.scenario is None else asdict(conversation.scenario),
        "landmarks_never_reached": [mark.turn for mark in conversation.never_reached],
        "transcript": [message_values(message, fields) for message in conversation.messages],
        "verdicts": [
            {**without_unknown(verdict_values(verdict, _JUDGED), "label"), **_counts(why)}
            for verdict, why in zip(
                conversation.verdicts, conversation.verdicts_why_not, strict=True
            )
        ],
        **_checks(conversation),
    }


def csv_lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    """The header, and a row for each verdict; rows end with CR LF, as in RFC 4180."""
    yield csv_line(COLUMNS)
    for conversation in conversations:
        whole = as_object(conversation)
        verdicts: list[dict[str, Any]] = whole["verdicts"]
        for verdict in verdicts or [{}]:
            fields = _fields(conversation, whole, verdict)
            yield csv_line([cell(fields[column]) for column in COLUMNS])


LABEL_COLUMNS: Final = (
    "benchmark conv_id target metric_id person present passed unscored counts justification "
    "replies stratum inclusion confidence seconds adjudicates"
).split()


def label_lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    """The header, and a row for each verdict of a person. `inclusion` is the probability with which
    the conversation was drawn, `replies` are the numbers of those quoted."""
    yield csv_line(LABEL_COLUMNS)
    for conversation in conversations:
        whole = as_object(conversation)
        for verdict in whole["verdicts"]:
            if verdict["source"] != "human":
                continue
            fields = {
                **whole,
                "target": conversation.take.key.target_id,
                **verdict,
                "person": verdict["judge"],
                "replies": " ".join(str(quote["turn"]) for quote in verdict["quotes"] or ()),
                **(verdict.get("label") or {}),
            }
            yield csv_line([cell(fields.get(column)) for column in LABEL_COLUMNS])


def _fields(
    conversation: Conversation, whole: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, object]:
    return {
        **whole,
        "target": conversation.take.key.target_id,
        "model": conversation.take.model,
        # whole ones: the last message of the user may have no reply
        "turns": len(conversation.messages) // 2,
        "demographic": whole.get("demographic") or "",
        **{name: values.get(name) for name in ("judge", "source", "pass", "justification")},
        "quotes": values.get("quotes") or "",
        "verdict_counts": values.get("counts"),
        "verdict_why_not": values.get("why_not"),
        "verdict_metric_id": values.get("metric_id"),
        "verdict_present": values.get("present"),
        "verdict_passed": values.get("passed"),
        "verdict_unscored": values.get("unscored"),
        "target_served_by": others_of(conversation.messages, Speaker.TARGET) or "",
        "user_served_by": others_of(conversation.messages, Speaker.USER) or "",
        "judge_served_by": values.get("served_by"),
        "target_settings": _in_words(conversation.settings.get("target")),
        "user_settings": _in_words(conversation.settings.get("user_model")),
        "judge_settings": _in_words(values.get("settings")),
    }


def _in_words(settings: Settings | None) -> str | None:
    return None if settings is None else settings_words(settings)


def cell(value: object) -> str:
    """The value as text that a spreadsheet does not take for a formula."""
    match value:
        case None:
            return ""
        # before `int`, which a bool is, too
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            text = clean(value)
        case _:
            text = clean(json.dumps(value, ensure_ascii=False))
    return f"'{text}" if text.lstrip(" ").startswith(_DANGEROUS) else text


def csv_line(cells: Iterable[str]) -> str:
    """A row as in RFC 4180, of cells that `cell` made."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()


_ACTS: Final = "\\`*_[]<>&~|$@{}"
"""Characters with a meaning in Markdown or a common extension of it; the backslash is first, as the
others are escaped with it."""
_LINKS: Final = (
    re.compile(r":(?=//)(?<=[A-Za-z]:)", re.IGNORECASE),
    re.compile(r"\.(?<=www\.)", re.IGNORECASE),
)
"""The same within an address. The character comes before the lookbehind, which is much slower."""
_BEGINS: Final = re.compile(r"([#+=!-]|\d{1,9}[.)])")
"""The same at the beginning of a line."""
_ANSWERS: Final = {True: "passed", False: "failed", None: "unscored"}


def escaped(text: str) -> str:
    """One line of foreign text, escaped so that Markdown shows it as it is."""
    line = clean(text.expandtabs(4))
    for sign in _ACTS:
        if sign in line:
            line = line.replace(sign, f"\\{sign}")
    # most texts have no address, which is quicker to see without the expressions
    if "://" in line or "www." in line.lower():
        for link in _LINKS:
            line = link.sub(r"\\\g<0>", line)
    rest = line.lstrip(" ")
    begins = _BEGINS.match(rest)
    # four blanks would begin a block of code
    blanks = "&nbsp;" * (len(line) - len(rest))
    return blanks + (
        rest if begins is None else f"{rest[: begins.end() - 1]}\\{rest[begins.end() - 1 :]}"
    )


def quoted_block(text: str) -> list[str]:
    """Foreign text as lines of a block quote that nothing in it can end; its line breaks stay."""
    lines = [escaped(line) if line.strip() else None for line in text.splitlines() or [""]]
    return [
        # a backslash at its end keeps the line from running into the next one
        ">" if line is None else f"> {line}" if follows is None else f"> {line}\\"
        for line, follows in zip(lines, [*lines[1:], None], strict=True)
    ]


def document(conversation: Conversation) -> list[str]:
    """The lines of a conversation as Markdown, with all foreign text escaped."""
    lines = [f"# {escaped(str(conversation.take.key))}", ""]
    if (note := conversation.scripted_note) is not None:
        lines += (f"*{escaped(note[0].upper() + note[1:])}.*", "")
    lines += (*_fact_lines(conversation), "", *_scenario_lines(conversation), "## Conversation")
    for message in conversation.messages:
        lines += _message_lines(message)
    lines += ("", "## Verdicts")
    for verdict, why in zip(conversation.verdicts, conversation.verdicts_why_not, strict=True):
        lines += _verdict_lines(verdict, why)
    if not conversation.verdicts:
        lines += ("", "There is none yet.")
    return lines


def _fact_lines(conversation: Conversation) -> Iterator[str]:
    take = conversation.take
    reason = "" if conversation.unscored is None else f" ({one_line(conversation.unscored)})"
    ended = "interrupted" if take.stop_reason is None else take.stop_reason.value
    metric = (
        ""
        if conversation.metric is None
        else f"{conversation.metric.name} ({conversation.metric.track})"
    )
    facts = {
        "benchmark": conversation.benchmark,
        "metric": metric,
        "target": f"{take.key.target_id} ({take.model})",
        "user model": take.user_model,
        "take": f"{take.number + 1}, ended: {ended.replace('_', ' ')}",
        "result": f"{_ANSWERS[conversation.passed]}{reason}",
        "counts": "yes" if conversation.why_not is None else f"no: {conversation.why_not}",
    }
    facts["not as asked"] = "; ".join(others_who_spoke(conversation.messages, take))
    for name, value in facts.items():
        if value:
            yield f"- {name}: {escaped(one_line(value))}"


def _scenario_lines(conversation: Conversation) -> Iterator[str]:
    if conversation.scenario is None:
        return
    parts = {
        "Persona": conversation.scenario.persona,
        "Goal": conversation.scenario.user_goal,
        "Hidden goal": conversation.scenario.latent_adversarial_goal,
    }
    yield "## Scenario"
    for name, text in parts.items():
        yield from ("", f"{name}:", "", *quoted_block(text))
    if conversation.scenario.demographic:
        people = ", ".join(
            f"{axis}: {value}" for axis, value in conversation.scenario.demographic.items()
        )
        yield from ("", f"Demographic: {escaped(one_line(people))}")
    yield ""


def _message_lines(message: MessageRow) -> list[str]:
    who = "User" if message.speaker is Speaker.USER else "Target"
    other = "" if message.served_by is None else f", from {escaped(one_line(message.served_by))}"
    lines = ["", f"### Turn {message.turn}, {who}{other}"]
    if message.landmark:
        lines += ("", f"Landmark: {escaped(one_line(message.landmark, 2000))}")
    lines += ("", *quoted_block(message.text))
    if message.thought:
        lines += ("", "Thought:", "", *quoted_block(message.thought))
    if message.reasoning:
        lines += ("", "Reasoning:", "", *quoted_block(message.reasoning))
    return lines


def _verdict_lines(verdict: Verdict, why_not: NotCounted | None) -> list[str]:
    reason = "" if verdict.unscored is None else f": {verdict.unscored}"
    present = {True: "present", False: "absent", None: "open"}[verdict.present]
    summary = f"{_ANSWERS[verdict.passed]}{reason}, {present}, about {verdict.metric_id}"
    if why_not is not None:
        summary += f"; does not count: {why_not}"
    other = "" if verdict.served_by is None else f", from {escaped(one_line(verdict.served_by))}"
    lines = ["", f"### {escaped(one_line(verdict.judge))}, pass {verdict.number + 1}{other}"]
    lines += ("", escaped(one_line(summary)), "", *quoted_block(verdict.justification))
    for quote in verdict.quotes:
        where = why_not_found(quote.text) if quote.turn is None else f"turn {quote.turn}"
        lines += ("", f"Evidence, {where}:", "", *quoted_block(quote.text))
    return lines
