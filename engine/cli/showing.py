"""The commands that show what is stored: show, search."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from engine.benchmark import (
    ENDINGS,
    AnswerForm,
    ConversationKey,
    Landmark,
    Metric,
    Scenario,
    Speaker,
    Stance,
    When,
)
from engine.checks import check_words
from engine.cli.commands.results import SearchCommand, ShowCommand
from engine.cli.console import out, out_json, tell
from engine.cli.ids import IdMatch, find, require_begun
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.display import marked_turns, one_line
from engine.errors import InputError, Problem
from engine.jury import (
    NO_VERDICT,
    NOT_JUDGED,
    CountedVerdicts,
    Counts,
    Jury,
    NotCounted,
    pass_words,
)
from engine.quotes import NO_QUOTE_FOUND, why_not_found
from engine.report.conversation import Conversation, shown_take, takes
from engine.scripted import all_scripts, played_by, scripts_in_words
from engine.store.model_settings import settings_words
from engine.store.reader import Reader
from engine.store.search import Hit, open_search
from engine.store.tables import CheckRow, MessageRow, StoredTake, Verdict, others_who_spoke

WIDTH = 96


def show(arguments: ShowCommand) -> int:
    session = open_to_read(arguments.workspace)
    with session.reader() as reader:
        named = find(reader, arguments.id, benchmark=arguments.benchmark)
        if arguments.json:
            out_json("show", session.hide(_as_json(session, reader, named)))
        else:
            for line in _as_text(session, reader, named):
                out(line)
    return 0


def search(arguments: SearchCommand) -> int:
    session = open_to_read(arguments.workspace)
    text = " ".join(arguments.text)
    if arguments.limit < 1:
        raise InputError(Problem("--limit must be at least 1"))
    speaker = {"user": Speaker.USER, "target": Speaker.TARGET, None: None}[arguments.by]
    with closing(open_search(session.store_path)) as index, session.reader() as reader:
        if arguments.benchmark is not None:
            require_begun(reader, arguments.benchmark)
        index.extend()
        hits = index.search(
            text, speaker=speaker, benchmark=arguments.benchmark, limit=arguments.limit
        )
        why_not = _why_not(session, reader, hits)
        count = len(hits)
        if count == arguments.limit:
            count = index.count(text, speaker=speaker, benchmark=arguments.benchmark)
    if arguments.json:
        rows = [
            {
                "conv_id": str(hit.key),
                **asdict(hit),
                "take": hit.take + 1,
                "counts": why is None,
                "why_not": why,
            }
            for hit, why in zip(hits, why_not, strict=True)
        ]
        out_json("search", session.hide(rows))
    for hit, why in () if arguments.json else zip(hits, why_not, strict=True):
        who = "user" if hit.speaker is Speaker.USER else "target"
        left_out = "" if why is None else f" (does not count: {why})"
        out(f"{hit.benchmark} {hit.key} turn {hit.turn} {who}{left_out}: {_snippet(hit)}")
    if count > len(hits):
        tell(f"{len(hits):,} of {count:,}; --limit N shows more")
    if not hits and not arguments.json:
        tell(f"no message holds {text!r}")
    return 0


def _why_not(session: Session, reader: Reader, hits: Sequence[Hit]) -> list[NotCounted | None]:
    """For each hit, why its take does not count; None if it does."""
    counts = {name: session.counts(name, reader) for name in {hit.benchmark for hit in hits}}
    reasons: list[NotCounted | None] = []
    for hit in hits:
        takes = reader.takes(hit.benchmark, hit.key)
        counting = next((take.seq for take in reversed(takes) if take.finished), None)
        take = next(take for take in takes if take.number == hit.take)
        reasons.append(counts[hit.benchmark].why_not_pooled(take, counting))
    return reasons


def _snippet(hit: Hit) -> str:
    words = " ".join(hit.snippet.split())
    return f"{'… ' if hit.cut_before else ''}{words}{' …' if hit.cut_after else ''}"


# As text


def _as_text(session: Session, reader: Reader, named: IdMatch) -> Iterator[str]:
    match named.kind:
        case "metric":
            yield from _metric(_find_metric(session, named))
        case "scenario":
            yield from _scenario(session, reader, named)
        case "row":
            pass
        case _:
            yield from _conversation(session, reader, named)
    yield from _failures(reader, named)


def _find_metric(session: Session, named: IdMatch) -> Metric:
    definition = load_definition(session.workspace.definition_path(named.benchmark))
    named_metric = next((metric for metric in definition.metrics if metric.id == named.id), None)
    if named_metric is None:
        raise InputError(
            Problem(f"{named.id} is no longer in benchmark.yaml", path=definition.path)
        )
    return named_metric


def _metric(metric: Metric) -> Iterator[str]:
    yield f"{metric.id} · {metric.name} · {metric.track} · {metric.when.in_words}"
    yield ""
    yield from _wrapped(metric.definition, "  ")
    for example in metric.examples:
        yield from _wrapped(example, "  - ")


def _scenario(session: Session, reader: Reader, named: IdMatch) -> Iterator[str]:
    rows = {row.scenario.id: row for row in reader.scenarios(named.benchmark)}
    row = rows[named.id]
    yield f"{named.id} · {named.benchmark} · metric {row.scenario.metric_id}"
    yield from _asked(session, named.benchmark, row.scenario.metric_id)
    yield from _setup(row.scenario)
    takes = [take for take in reader.takes(named.benchmark) if take.key.scenario_id == named.id]
    counts = session.counts(named.benchmark, reader)
    if takes:
        yield ""
        yield "conversations"
    for key in dict.fromkeys(take.key for take in takes):
        yield f"  {key}  {_standing_words(reader, named.benchmark, key, counts)}"


def _asked(session: Session, benchmark: str, metric_id: str) -> Iterator[str]:
    """What the metric asks of the target; nothing where the workspace no longer defines it."""
    path = session.workspace.definition_path(benchmark)
    metrics = load_definition(path).metrics if path.is_file() else ()
    for metric in metrics:
        if metric.id == metric_id:
            asked = f"{metric.name} ({metric.track}). {metric.definition}"
            yield from _wrapped(asked, f"  {metric.id}: ")


def _setup(scenario: Scenario, missed: Collection[Landmark] = ()) -> Iterator[str]:
    for name, value in scenario.demographic.items():
        yield f"  {name}: {value}"
    for label, text in (
        ("persona", scenario.persona),
        ("wants", scenario.user_goal),
        ("hidden goal", scenario.latent_adversarial_goal),
    ):
        yield from _wrapped(text, f"  {label}: ")
    for mark in scenario.landmarks:
        never = " (never reached)" if mark in missed else ""
        yield from _wrapped(mark.instruction + never, f"  turn {mark.turn}: ")


def _standing_words(reader: Reader, benchmark: str, key: ConversationKey, counts: Counts) -> str:
    take = reader.counting_take(benchmark, key)
    if take is None:
        return NotCounted.UNFINISHED
    counted = counts.verdicts_on(take, reader.verdicts(take.seq))
    why = counts.why_not_pooled(take, take.seq)
    return f"{'' if why is None else f'does not count, {why}: '}{_come_to(counted)}"


def _come_to(counted: CountedVerdicts[Verdict]) -> str:
    if counted.shown is None:
        return NOT_JUDGED
    if counted.passed is None and counted.unscored != NO_VERDICT:
        return f"· unscored, {counted.unscored}"
    return _outcome(counted.shown)


def _conversation(session: Session, reader: Reader, named: IdMatch) -> Iterator[str]:
    key, counts = ConversationKey.parse(named.id), session.counts(named.benchmark, reader)
    for shown in takes(reader, named.benchmark, key, counts):
        take = shown.take
        yield f"{named.id} · {named.benchmark} · take {take.number + 1}"
        parts = played_by(take.user_model, take.model, scripted=take.scripted)
        some = "scripted, not language models" if all_scripts(parts) else scripts_in_words(parts)
        scripted = f" · {some}" if some else ""
        stance = take.stance
        neutral = f" ({stance})" if stance is Stance.NEUTRAL else ""
        plain = " (in plain text)" if take.form is AnswerForm.PLAIN else ""
        user = f"{take.user_model}{neutral}{plain}"
        yield f"  target {take.model} · user model {user}{scripted}"
        for who, settings in shown.settings.items():
            words = f"{who.replace('_', ' ')} asked with: {settings_words(settings)}"
            yield from _wrapped(words, "  ")
        yield f"  ended: {_end(take)}"
        for fault in take.faults:
            yield from _wrapped(f"user model, {fault}", "  ! ")
        if shown.why_not is None:
            yield f"  counts: {_come_to(counts.verdicts_on(take, shown.verdicts))}"
        else:
            yield f"  does not count: {shown.why_not}"
        for line in others_who_spoke(shown.messages, take):
            yield from _wrapped(line, "  ! ")
        if shown.scenario is not None:
            yield from _asked(session, named.benchmark, shown.scenario.metric_id)
            yield from _setup(shown.scenario, shown.never_reached)
        yield from _transcript(shown.messages)
        yield from _verdicts(shown, counts.jury)
        yield from _checks(shown.checks)
        yield ""


def _failures(reader: Reader, named: IdMatch) -> Iterator[str]:
    """Why its rows of work failed, with the last answers that could not be used."""
    for failed in reader.failed_rows(named.id, named.benchmark):
        yield f"{failed.unit} · {failed.benchmark} · {failed.stage} failed"
        yield from _wrapped(failed.reason or "no reason was kept", "  ")
        for unusable in reader.unusable_answers(failed):
            who = f"{unusable.role} {unusable.model}"
            yield from _wrapped(f"{who}, last answer, not usable ({unusable.fault}):", "  ")
            for line in unusable.answer.splitlines():
                yield from _wrapped(line, "    │ ")


def _end(take: StoredTake) -> str:
    if take.stop_reason is None:
        return "not yet"
    words = ENDINGS[take.stop_reason]
    return f"{words}: {take.detail}" if take.detail else words


def _transcript(messages: Sequence[MessageRow]) -> Iterator[str]:
    for message in messages:
        yield ""
        if message.speaker is Speaker.USER:
            yield f"{message.turn} user{_by_other(message.served_by)}"
            if message.landmark:
                yield from _wrapped(message.landmark, "  ▸ landmark: ")
            if message.thought:
                yield from _wrapped(message.thought, "  ▸ thought: ")
        else:
            cut = "" if message.finish == "stop" else f" ({message.finish})"
            yield f"{message.turn} target{cut}{_by_other(message.served_by)}"
            if message.reasoning:
                yield from _wrapped(message.reasoning, "  ▸ reasoning: ")
        for line in message.text.splitlines() or [""]:
            yield from _wrapped(line, "  ") if line.strip() else [""]


def _by_other(served_by: str | None) -> str:
    return "" if served_by is None else f" (from {one_line(served_by)})"


def _verdicts(shown: Conversation, jury: Jury) -> Iterator[str]:
    """Those of a take, each with whether it counts or why not."""
    for verdict, why, settings in zip(
        shown.verdicts, shown.verdicts_why_not, shown.verdict_settings, strict=True
    ):
        yield ""
        words = pass_words(verdict, jury)
        again = f", {words}" if words else ""
        other = _by_other(verdict.served_by)
        # of a replay, its words say why it does not count
        is_said = why == shown.why_not or jury.repeats(verdict)
        decides = ", counts" if why is None else "" if is_said else f", {why}"
        yield f"verdict of {verdict.judge}{again}{other}{decides}: {_outcome(verdict)}"
        yield from _wrapped(verdict.justification, "  ")
        if settings is not None:
            yield from _wrapped(f"asked with: {settings_words(settings)}", "  ")
        if verdict.marks is not None:
            yield f"  shown in {marked_turns(verdict.marks)}"
        for quote in verdict.quotes:
            place = f"turn {quote.turn}" if quote.turn else why_not_found(quote.text)
            yield from _wrapped(f"“{quote.text}” ({place})", "  › ")
        if verdict.lacks_quote:
            yield f"  ! {NO_QUOTE_FOUND}"


def _checks(checks: Sequence[CheckRow]) -> Iterator[str]:
    for check in checks:
        yield ""
        by = f" by {check.model}" if check.model else ""
        fault = check.unusable and f"no usable answer: {one_line(check.unusable)}"
        words = fault or check_words(check.kind, check.answers)
        yield from _wrapped(f"{check.kind.in_words}{by}{_by_other(check.served_by)}: {words}", "")
        for answer in check.answers:
            turn = "" if answer.turn is None else f"turn {answer.turn}: "
            if answer.turn is not None and not answer.holds:
                yield from _wrapped(f"{turn}{answer.said}", "  ! ")
            if answer.quote:
                yield from _wrapped(f"{turn}“{answer.quote}”", "  › ")


def _outcome(verdict: Verdict) -> str:
    if verdict.passed is None:
        return f"· unscored, {verdict.unscored}"
    present = "present" if verdict.present else "absent"
    if verdict.must_hold is not When.ANYWHERE:
        present += f" {verdict.must_hold.in_words}"
    word = "✓ pass" if verdict.passed else "✗ fail"
    return f"{word}, {present} ({verdict.track} metric {verdict.metric_id})"


def _wrapped(text: str, lead: str) -> list[str]:
    blanks = len(lead) - len(lead.lstrip())
    indent = " " * (blanks + 2 if lead.strip() else blanks)
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=lead, subsequent_indent=indent
    ) or [lead.rstrip()]


# As JSON


def _as_json(session: Session, reader: Reader, named: IdMatch) -> dict[str, Any]:
    head: dict[str, Any] = {"benchmark": named.benchmark, "id": named.id, "kind": named.kind}
    if failed := reader.failed_rows(named.id, named.benchmark):
        head["failed"] = [
            {
                "stage": row.stage,
                "reason": row.reason,
                "unusable_answers": [
                    {"role": one.role, "model": one.model, "fault": one.fault, "answer": one.answer}
                    for one in reader.unusable_answers(row)
                ],
            }
            for row in failed
        ]
    match named.kind:
        case "row":
            return head
        case "metric":
            return {**head, "metric": asdict(_find_metric(session, named))}
        case "scenario":
            rows = {row.scenario.id: row for row in reader.scenarios(named.benchmark)}
            return {**head, "scenario": asdict(rows[named.id].scenario)}
        case _:
            key = ConversationKey.parse(named.id)
            counts = session.counts(named.benchmark, reader)
            shown = [shown_take(take) for take in takes(reader, named.benchmark, key, counts)]
            return {**head, "takes": shown[::-1]}
