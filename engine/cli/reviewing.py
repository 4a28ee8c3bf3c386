"""`crosswind review`: a person approves or rejects metrics and scenarios before they are played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from engine.benchmark import Stage
from engine.cli.access import writing
from engine.cli.commands.results import ReviewCommand
from engine.cli.console import out, out_json
from engine.cli.engine_requests import asked_of_engine, by_engine_or_here
from engine.cli.linting import read_with
from engine.cli.person_labels import WaitingLabels, person_named, this_account
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.config.write_back import metric_text, scenario_text
from engine.display import one_line
from engine.errors import DONE, InputError, Problem
from engine.link import Command, Request
from engine.people import ReviewRequest, ReviewState
from engine.pipeline.files import write_files
from engine.pipeline.order import Order, Rewriting
from engine.pipeline.review.acts import LONGEST_REASON
from engine.pipeline.review.reviews import ReviewEntry, ReviewPage
from engine.pipeline.run import Pipeline, mirror_benchmark, review_benchmark
from engine.store.tables import ReviewAction, ReviewKind, ScenarioRow

_SHOWN: Final = 60
"""Characters of a metric's name or a scenario's goal."""
_REST: Final = "*"
REVIEWED_FILES: Final = frozenset({"scenarios.json", "history.jsonl"})
"""The files that record a review action, besides `benchmark.yaml`."""


def review(arguments: ReviewCommand) -> int:
    session = open_session(arguments.workspace)
    action = _action(arguments)
    if arguments.reason is not None and action is not ReviewAction.REJECT:
        raise InputError(Problem("--reason goes with --reject"))
    if arguments.model is not None:
        return read_with(session, session.benchmarks(_named(arguments)), arguments.model, arguments)
    if action is None:
        names = session.benchmarks(_named(arguments))
        pages = [page_of(session, name) for name in names]
        if arguments.json:
            out_json("review", [page_json(page) for page in pages])
            return DONE
        for line in (line for page in pages for line in page_lines(page)):
            out(line)
        return DONE
    name = session.one_benchmark(arguments.benchmark)
    entries = page_of(session, name).entries
    asked = ReviewRequest(
        name,
        action,
        person_named(arguments.by),
        this_account(),
        tuple(_resolved_ids(arguments.approve or arguments.reject or (), entries)),
        arguments.reason or "",
    )
    answer = have_reviewed(session, asked)
    if arguments.json:
        out_json("review", [{"said": answer, **page_json(page_of(session, name))}])
    else:
        out(answer)
    return DONE


def _named(arguments: ReviewCommand) -> list[str]:
    return [arguments.benchmark] if arguments.benchmark else []


def have_reviewed(session: Session, asked: ReviewRequest, *, all_files: bool = True) -> str:
    """Have the engine at work, or this process, do a review action; returns a sentence about it.
    Without `all_files`, this process writes `REVIEWED_FILES` alone: the files of conversations
    take longer the more there are. Raises `InputError`, `RefusedError`, `StoreError` and
    `WorkspaceBusyError`."""

    async def done(pipeline: Pipeline) -> str:
        answer = await review_benchmark(pipeline, asked)
        if all_files:
            await mirror_benchmark(pipeline, asked.benchmark)
        else:
            path = session.workspace.definition_path(asked.benchmark)
            await write_files(pipeline.context_of(load_definition(path)), only=REVIEWED_FILES)
        return answer

    def here() -> str:
        with writing(session) as pipeline:
            return asyncio.run(done(pipeline))

    request = Request(Command.REVIEW, review=asked)
    return by_engine_or_here(session, here, lambda link: asked_of_engine(link, request))


@dataclass(frozen=True, slots=True)
class PersonReview:
    """A person's review of a workspace. Its methods block and may be called on any thread."""

    session: Session
    by: Callable[[], str | None] = lambda: None
    """Returns the person's name as it is now; None where they gave none."""
    _one_at_a_time: Lock = field(default_factory=Lock)

    def pages(self) -> list[ReviewPage]:
        """The review page of every benchmark. Raises `InputError` and `StoreError`."""
        return [page_of(self.session, name) for name in self.session.benchmarks(())]

    def labels(self) -> dict[str, WaitingLabels]:
        """What waits to be labelled and decided, by benchmark. Raises `CrosswindError`."""
        names = self.session.benchmarks(())
        return {name: WaitingLabels.of(self.session, name, self.by()) for name in names}

    def text(self, entry: ReviewEntry) -> str:
        """The parts of it that a person may change, as YAML."""
        if isinstance(entry.content, ScenarioRow):
            return scenario_text(entry.content.scenario)
        return metric_text(entry.content.metric)

    def rewriting(self, benchmark: str, entry: ReviewEntry, note: str) -> Order:
        """The order for the generator to rewrite it. Raises `InputError` for an empty or too long
        `note`."""
        if not 0 < len(note.strip()) <= LONGEST_REASON:
            what = f"a note to the generator takes 1 to {LONGEST_REASON:,} characters"
            raise InputError(Problem(what, hint="such as: less dramatic, no illness"))
        is_metric = entry.kind is ReviewKind.METRIC
        stage = Stage.GEN_METRICS if is_metric else Stage.GEN_SCENARIOS
        # the row of work: one for all metrics, one for the bases of a metric, one for each variant
        unit = benchmark if is_metric else entry.metric_id if entry.is_base else entry.id
        person = person_named(self.by())
        asked = Rewriting(stage, entry.id, unit, note.strip(), person, this_account())
        return Order((benchmark,), frozenset({stage}), rewrite={benchmark: asked})

    def act(
        self,
        benchmark: str,
        action: ReviewAction,
        entries: Sequence[ReviewEntry] = (),
        *,
        reason: str = "",
        text: str | None = None,
    ) -> str:
        """As `have_reviewed`, and raises the same errors. Nothing is done where an entry has
        changed since it was shown."""
        asked = ReviewRequest(
            benchmark,
            action,
            person_named(self.by()),
            this_account(),
            tuple(entry.id for entry in entries),
            reason,
            text,
            # what was shown, so that nobody decides on a text that they have not seen
            {entry.id: entry.digest for entry in entries},
        )
        with self._one_at_a_time:
            return have_reviewed(self.session, asked, all_files=False)

    def write_files(self, benchmark: str) -> None:
        """Bring all files of a benchmark up to date; `act` skips those that hold what was played.
        Raises `CrosswindError`."""

        def here() -> str:
            with writing(self.session) as pipeline:
                asyncio.run(mirror_benchmark(pipeline, benchmark))
            return ""

        with self._one_at_a_time:
            by_engine_or_here(self.session, here, lambda _link: "")  # an engine writes them itself


def _action(arguments: ReviewCommand) -> ReviewAction | None:
    if arguments.approve:
        return ReviewAction.APPROVE
    if arguments.reject:
        return ReviewAction.REJECT
    return ReviewAction.UNDO if arguments.undo else None


def _resolved_ids(words: Sequence[str], entries: Sequence[ReviewEntry]) -> Iterator[str]:
    """The ids, with those that a word such as `m01*` stands for. Raises `InputError` where there
    are none."""
    for word in words:
        if not word.endswith(_REST):
            yield word
            continue
        matches = [entry.id for entry in entries if entry.id.startswith(word.removesuffix(_REST))]
        if not matches:
            beginning = word.removesuffix(_REST)
            raise InputError(Problem(f"no metric and no scenario begins with {beginning!r}"))
        yield from matches


def page_of(session: Session, name: str) -> ReviewPage:
    """The review page of a benchmark. Raises `InputError` and `StoreError`."""
    definition = load_definition(session.workspace.definition_path(name))
    with session.reader_or_empty() as reader:
        return ReviewPage.of(definition, config_of(session.config, name), reader)


def page_lines(page: ReviewPage) -> Iterator[str]:
    """The rows that wait for review, and the commands to go on with."""
    if not page.waiting:
        yield f"{page.benchmark}: nothing waits for a person{_done_line(page)}"
        return
    yield f"{page.benchmark}: {len(page.waiting):,} to review{_done_line(page)}"
    width = max(len(entry.id) for entry in page.waiting)
    for entry in page.waiting:
        in_short = one_line(entry.in_short, _SHOWN)
        yield f"  {entry.id.ljust(width)}  {entry.word.ljust(13)}  {in_short}"
        for finding in page.findings.get(entry.id, ()):
            yield f"  {' ' * width}  {finding.rule}: {one_line(finding.says)}"
    first = page.waiting[0].id
    command = f"crosswind review {page.benchmark} --approve {first}"
    yield f"`crosswind show {first}` shows one, `{command}`"
    yield "approves it, `--reject ID --reason TEXT` takes it out, `--undo` takes that back"


def _done_line(page: ReviewPage) -> str:
    states = [entry.state for entry in page.entries]
    counts = [(state, states.count(state)) for state in ReviewState]
    counts_by_state = [
        f"{count:,} {state}" for state, count in counts if count and state != "waits"
    ]
    return f" ({', '.join(counts_by_state)})" if counts_by_state else ""


def page_json(page: ReviewPage) -> dict[str, Any]:
    """Every row with its state."""
    return {
        "benchmark": page.benchmark,
        "waiting": len(page.waiting),
        "rows": [_row_json(page, entry) for entry in page.entries],
    }


def _row_json(page: ReviewPage, entry: ReviewEntry) -> dict[str, Any]:
    act = entry.act
    findings = page.findings.get(entry.id, ())
    return {
        "id": entry.id,
        "kind": entry.word,
        "state": entry.state,
        "digest": entry.digest,
        "by": None if act is None else act.person,
        "action": None if act is None else act.action,
        "reason": None if act is None else act.reason,
        "findings": [{"rule": finding.rule, "says": finding.says} for finding in findings],
        "alike": [
            {"id": neighbour.id, "words_in_common": round(neighbour.alike, 3)}
            for neighbour in page.neighbours(entry)
        ],
    }
