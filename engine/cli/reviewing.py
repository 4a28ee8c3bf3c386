"""`crosswind review`: what a person says of metrics and scenarios before they are paid for."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from engine.cli.console import out, out_json, tell
from engine.cli.label_writing import asked_of_engine, by_engine_or_here
from engine.cli.person_sample import person_named, this_account
from engine.cli.pipelines import writing
from engine.cli.pricing import waiting_sentence
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.display import one_line, plural
from engine.errors import DONE, InputError, Problem
from engine.link import Command, Request
from engine.lint import LintFinding
from engine.pipeline.order import Order
from engine.pipeline.planner import Planner
from engine.pipeline.play import ConversationPlanner, wanted_conversations
from engine.pipeline.review_acts import do_review
from engine.pipeline.review_help import findings_of, neighbours_of
from engine.pipeline.reviews import ReviewEntry, Reviews, ReviewState
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.pipeline.standing import StoredConversations
from engine.review import ReviewMode, ReviewRequest
from engine.store.reading import empty_reader, open_reader
from engine.store.tables import ReviewAction, ScenarioRow

_SHOWN: Final = 60
"""Characters of a metric's name or a scenario's goal."""
_REST: Final = "*"


def review(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    action = _action(arguments)
    if arguments.reason is not None and action is not ReviewAction.REJECT:
        raise InputError(Problem("--reason goes with --reject"))
    if action is None:
        names = session.benchmarks([arguments.benchmark] if arguments.benchmark else [])
        found = [(name, *_read(session, name)) for name in names]
        _print([_ReviewList(name, reviews, turns) for name, reviews, turns in found], arguments)
        return DONE
    name = _only_one(session, arguments.benchmark)
    entries = _read(session, name)[0].entries()
    asked = ReviewRequest(
        name,
        action,
        person_named(arguments.by),
        this_account(),
        tuple(_named(arguments.approve or arguments.reject or (), entries)),
        arguments.reason or "",
    )
    said = have_reviewed(session, asked)
    if arguments.json:
        reviews, turns = _read(session, name)
        out_json({"said": said, **_ReviewList(name, reviews, turns).as_json})
    else:
        out(said)
    return DONE


def have_reviewed(session: Session, asked: ReviewRequest) -> str:
    """What was done, in words: by the engine at work, or here. Raises `InputError`,
    `RefusedError`, `StoreError` and `WorkspaceBusyError`."""

    async def done(pipeline: Pipeline) -> str:
        said = await do_review(pipeline, asked)
        await mirror_benchmark(pipeline, asked.benchmark)
        return said

    def here() -> str:
        with writing(session) as pipeline:
            return asyncio.run(done(pipeline))

    request = Request(Command.REVIEW, review=asked)
    return by_engine_or_here(session, here, lambda link: asked_of_engine(link, request))


def waiting_of(session: Session, order: Order) -> dict[str, list[str]]:
    """By benchmark, the ids that a person is to approve before all of an order can be done."""
    if session.config.review is not ReviewMode.REQUIRED or not session.store_path.exists():
        return {}
    found: dict[str, list[str]] = {}
    with closing(open_reader(session.store_path)) as reader:
        planner = Planner(session.workspace, session.config, reader)
        for name in order.benchmarks:
            bench = planner.context(load_definition(session.workspace.definition_path(name)))
            talk = ConversationPlanner(bench, order, StoredConversations.of(reader, name))
            wanted = wanted_conversations(bench.definition, bench.config, reader)
            if waiting := sorted(talk.held(wanted)):
                found[name] = waiting
    return found


def tell_waiting(waiting: Mapping[str, Sequence[str]]) -> None:
    """What is to be done before a run can go on."""
    for name, ids in waiting.items():
        tell(
            f"{name}: {waiting_sentence(name, ids)}, `crosswind review {name} --approve ID …` "
            "lets them be played"
        )


def waiting_count(session: Session, name: str) -> int:
    """Of metrics and scenarios that a model wrote and nobody approved."""
    return len(_read(session, name)[0].waiting())


def _action(arguments: argparse.Namespace) -> ReviewAction | None:
    if arguments.approve:
        return ReviewAction.APPROVE
    if arguments.reject:
        return ReviewAction.REJECT
    return ReviewAction.UNDO if arguments.undo else None


def _only_one(session: Session, name: str | None) -> str:
    names = session.benchmarks([name] if name else [])
    if len(names) != 1:
        hint = f"there is: {', '.join(names)}"
        raise InputError(Problem("which benchmark is not said", hint=hint))
    return names[0]


def _read(session: Session, name: str) -> tuple[Reviews, int]:
    """What can be reviewed, and how many turns a conversation has."""
    definition = load_definition(session.workspace.definition_path(name))
    path = session.store_path
    with closing(open_reader(path) if path.exists() else empty_reader(path)) as reader:
        return Reviews.of(definition, reader), config_of(session.config, name).generation.turns


def _named(words: Sequence[str], entries: Sequence[ReviewEntry]) -> Iterator[str]:
    """Raises `InputError` where a beginning is nobody's."""
    for word in words:
        if not word.endswith(_REST):
            yield word
            continue
        found = [one.id for one in entries if one.id.startswith(word.removesuffix(_REST))]
        if not found:
            raise InputError(Problem(f"no metric and no scenario begins as {word!r} does"))
        yield from found


class _ReviewList:
    """One benchmark's rows."""

    def __init__(self, name: str, reviews: Reviews, turns: int) -> None:
        self.name = name
        self.entries = reviews.entries()
        self._findings = findings_of(reviews, turns)

    @property
    def waiting(self) -> list[ReviewEntry]:
        return [one for one in self.entries if one.state is ReviewState.WAITS]

    @property
    def lines(self) -> Iterator[str]:
        if not self.waiting:
            yield f"{self.name}: nothing waits for a person{self._done()}"
            return
        yield f"{self.name}: {plural(len(self.waiting), 'row')} to review{self._done()}"
        width = max(len(one.id) for one in self.waiting)
        for one in self.waiting:
            yield f"  {one.id.ljust(width)}  {one.word.ljust(13)}  {in_short(one)}"
            for finding in self.findings(one):
                yield f"  {' ' * width}  {finding.rule}: {one_line(finding.says)}"
        first = self.waiting[0].id
        command = f"crosswind review {self.name} --approve {first}"
        yield f"`crosswind show {first}` shows one, `{command}`"
        yield "approves it, `--reject ID --reason TEXT` takes it out, `--undo` takes that back"

    def _done(self) -> str:
        states = [one.state for one in self.entries]
        counts = [(state, states.count(state)) for state in ReviewState]
        told = [f"{count:,} {state}" for state, count in counts if count and state != "waits"]
        return f" ({', '.join(told)})" if told else ""

    def findings(self, entry: ReviewEntry) -> Sequence[LintFinding]:
        return self._findings.get(entry.id, ())

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "waiting": len(self.waiting),
            "rows": [self._row(one) for one in self.entries],
        }

    def _row(self, entry: ReviewEntry) -> dict[str, Any]:
        act = entry.act
        near = neighbours_of(entry, self.entries)
        return {
            "id": entry.id,
            "kind": entry.word,
            "state": entry.state,
            "digest": entry.digest,
            "by": None if act is None else act.person,
            "action": None if act is None else act.action,
            "reason": None if act is None else act.reason,
            "findings": [{"rule": one.rule, "says": one.says} for one in self.findings(entry)],
            "alike": [{"id": one.id, "words_in_common": round(one.alike, 3)} for one in near],
        }


def in_short(entry: ReviewEntry) -> str:
    """A metric's name, a base scenario's goal, whom a variant is about."""
    if not isinstance(entry.of, ScenarioRow):
        return one_line(entry.of.metric.name, _SHOWN)
    scenario = entry.of.scenario
    groups = ", ".join(scenario.demographic.values())
    return one_line(groups or scenario.user_goal, _SHOWN)


def _print(lists: Sequence[_ReviewList], arguments: argparse.Namespace) -> None:
    if arguments.json:
        out_json([one.as_json for one in lists])
        return
    for one in lists:
        for line in one.lines:
            out(line)
