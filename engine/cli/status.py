"""`crosswind status`: how far each benchmark is, and what the engine is doing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.benchmark import Role, Stage
from engine.cli.access import ahead_of, missing_for
from engine.cli.commands.at_work import StatusCommand
from engine.cli.console import out, out_json, out_sentences, table, tell
from engine.cli.engine_handle import NOBODY
from engine.cli.lines import (
    budget_to_raise,
    count_of,
    failure_lines,
    failures_json,
    price_stop,
    rejected_sentence,
    what_next,
)
from engine.cli.session import Session, open_to_read
from engine.display import plural
from engine.errors import InputError, Problem
from engine.facts import RunEnd
from engine.link import Board, EngineState, workers_words
from engine.pipeline.batch_ledger import batch_lines
from engine.pipeline.order import Order, budget_words, cut_off_words
from engine.pipeline.planner import CENT, Planner, RemainingWork
from engine.pipeline.remedies import FailureGroup, standing_failures
from engine.progress import Progress, StateCounts, TargetProgress
from engine.store.acknowledged import rows_unwritten
from engine.store.lock import Holder
from engine.store.open_reader import reader_or_empty
from engine.store.reader import Reader
from engine.watch import Watch, targets_of

RUN: Final = "`crosswind run`"
LAST_RUN: Final = {
    "none": "nothing has run yet; `crosswind run` begins",
    "imported": "what there is was taken from files, which do not say how the last run ended; "
    "`crosswind run` does what is missing",
    "lost": "the last run was killed, its machine went down, or its disk was full; all that was "
    "stored is kept, and `crosswind run` goes on from here",
    "no room": "the last run ended without room on its disk: {} could not be stored and {} lost; "
    "all that was stored before is kept, and `crosswind run` goes on from here",
    RunEnd.BROKEN.value: "the last run ended with a fault; crosswind.log in the workspace says "
    "where, and `crosswind run` goes on from there",
    "stopped": "the last run was stopped before its end; `crosswind run` goes on from here",
    "stopped by": "the last run was stopped before its end by `{}`: raise it in config.yaml, then "
    "`crosswind run` goes on from there",
    "nothing left": "the last run was stopped before its end, and nothing is missing; "
    "`crosswind results` shows its results",
    "done": "the last run came to its end; `crosswind results` shows its results",
    "unjudged": "the last run did its part, and nothing is judged yet; `crosswind run` goes on",
    "failed": "the last run came to its end: nothing is judged, and {} failed; why, and what to "
    "do, is said below",
    "partly": "the last run did its part, and not everything is judged yet; `crosswind run` "
    "goes on, `crosswind results` shows what there is",
}


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workspace and of its engine."""

    session: Session
    holder: Holder | None
    board: Board | None
    """None where no engine is at work."""
    watch: Watch
    ahead: Mapping[str, RemainingWork]
    """By benchmark."""
    refused: Sequence[Problem] = ()
    """What a run of everything would refuse before its first call; empty while an engine works."""

    @property
    def failures(self) -> Sequence[FailureGroup]:
        infos, watch = self.watch.benchmarks, self.watch
        return standing_failures(
            watch.reader, [info.name for info in infos], targets_of(infos), watch.corrections
        )


def status(arguments: StatusCommand) -> int:
    session = open_to_read(arguments.workspace)
    infos = session.watched()
    holder = session.holder()
    with closing(Watch(reader_or_empty(session.store_path), infos)) as watched:
        ahead = {info.name: _ahead(session, info.name, watched.reader) for info in infos}
        # an engine at work settles its own rows
        for name, remaining in ahead.items() if holder is None else ():
            watched.correct(name, remaining.corrections, remaining.seq)
        refused = [] if holder else _refused(session, ahead, watched.reader)
        state = Status(session, holder, _board(session, holder), watched, ahead, refused)
        if arguments.json:
            out_json("status", _as_json(state))
        else:
            _print(state)
    return 0


def _ahead(session: Session, name: str, reader: Reader) -> RemainingWork:
    try:
        return ahead_of(session, name, reader)
    except InputError as error:
        for problem in error.problems:
            tell(f"note: {problem}")
        return RemainingWork()


def _refused(
    session: Session, ahead: Mapping[str, RemainingWork], reader: Reader
) -> Sequence[Problem]:
    planner = Planner(session.workspace, session.config, reader)
    called = [spec for remaining in ahead.values() for spec in remaining.called]
    try:
        found = planner.refusals(Order(tuple(ahead)), asks=sys.stdin.isatty())
    except InputError as error:
        return error.problems
    return found.all if found.faults else [*found.all, *missing_for(session, called)]


def _board(session: Session, holder: Holder | None) -> Board | None:
    if holder is None:
        return None
    with closing(session.link()) as link:
        return link.board()


def _as_json(status: Status) -> dict[str, Any]:
    holder, progress = status.holder, status.watch.progress
    benchmarks = {}
    for info in status.watch.benchmarks:
        ahead = status.ahead[info.name]
        benchmarks[info.name] = {
            "stages": {
                stage: _tally_json(progress.stage_tally(info.name, stage)) for stage in Stage
            },
            "targets": {
                target.id: _target_json(progress.target(info.name, target.id))
                for target in info.targets
            },
            "to_begin": dict(ahead.to_begin),
            "to_judge_more": ahead.to_judge_more,
            "to_review": ahead.to_review,
            "all_rejected": ahead.all_rejected,
            "review_required": ahead.required,
        }
    return {
        "workspace": str(status.session.workspace.root),
        "engine": _engine_json(status, holder),
        "summary": _engine_line(status),
        "last": progress.run_state,
        "last_run": "at work" if holder else _last_run(progress),
        "unwritten_rows": 0 if holder else rows_unwritten(status.session.store_path),
        "run_budget_usd": status.session.config.run.budget,
        "workspace_budget_usd": status.session.config.workspace_budget,
        **_spending_json(status),
        "unsettled_usd": status.watch.reader.unsettled_usd(),
        "refused": [str(problem) for problem in status.refused],
        "batches": [*batch_lines(status.watch.reader)],
        "failed": count_of(status.failures),
        "failures": failures_json(status.failures),
        "unread_results": status.session.unread(),
        "benchmarks": benchmarks,
    }


def _target_json(target: TargetProgress) -> dict[str, Any]:
    return {
        "simulate": _tally_json(target.simulate),
        "evaluate": _tally_json(target.evaluate),
        "calls": target.usage.calls,
        "cost_usd": target.usage.cost_usd,
        "last_problem": target.last_problem,
        "replies": target.replies,
        "served_by_others": target.others,
    }


def _engine_json(status: Status, holder: Holder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    board = status.board
    heard = board if board is not None and board.engine is not None else None
    spent = None if board is None else board.spent_usd
    return {
        "pid": holder.pid,
        "host": holder.host,
        "since": holder.since and holder.since.isoformat(),
        "state": board and board.state,
        "speaking": heard and heard.spoken,
        "waiting_messages": heard and heard.waiting_messages,
        "problem": board and board.problem,
        "waits": [asdict(wait) for wait in board.waits] if board else [],
        "limits": [asdict(limit) for limit in board.limits] if board else [],
        "parked": dict(board.parked) if board else {},
        "concurrency": dict(board.concurrency) if board else {},
        "between": dict(board.between) if board else {},
        "notices": list(board.notices) if board else [],
        "agents": [asdict(agent) for agent in board.agents] if board else [],
        "quote": board and board.quote and asdict(board.quote),
        "agreed_usd": board and board.agreed_usd,
        "spent_usd": spent or (None if spent is None else _nothing_spent(status)),
        "rest_usd": board and board.rest_usd,
        "question": board and board.question,
    }


def _tally_json(tally: StateCounts) -> dict[str, int]:
    return {name: getattr(tally, name) for name in ("queued", "running", "done", "failed")}


def _print(status: Status) -> None:
    board, progress = status.board, status.watch.progress
    out_sentences(_engine_line(status))
    unread = status.session.unread()  # which stands in the line above
    if refused := [problem for problem in status.refused if problem.what != unread]:
        more = f"; and {len(refused) - 1} more, which {RUN[:-1]} --dry-run` lists"
        out_sentences(f"! {RUN} refuses: {refused[0]}{more if refused[1:] else ''}")
    stopped = None if board is not None else price_stop(progress)
    for text in (*([stopped] if stopped else ()), *_remarks(board), *_money(status)):
        out_sentences(f"  {text}")
    body = []
    for info in status.watch.benchmarks:
        for target in info.targets:
            state = progress.target(info.name, target.id)
            cells = [state.simulate, state.evaluate]
            to_begin = 0 if board else status.ahead[info.name].to_begin.get(target.id, 0)
            counts = [f"{tally.done}/{tally.total + to_begin}" for tally in cells]
            failed = sum(tally.failed for tally in cells)
            spent = _usd(state.usage.cost_usd)
            body.append([info.name, target.id, *counts, str(failed), spent])
    head = ["benchmark", "target", "played", "judged", "failed", "spent"]
    out(table(head, body, right=frozenset({2, 3, 4, 5})))
    for text in _sentences_below(status):
        out_sentences(text)


def _sentences_below(status: Status) -> Iterator[str]:
    """What is said below the table."""
    yield from _spending_lines(status)
    yield from batch_lines(status.watch.reader)
    for info in status.watch.benchmarks:
        for target in info.targets:
            others = status.watch.progress.target(info.name, target.id).served_by_others
            if others is not None:
                yield f"! {info.name}, target {target.id}: {others}, not from {target.label}"
    for name, ahead in status.ahead.items():
        if ahead.all_rejected:
            yield rejected_sentence(name)
        if status.holder is None and (left := ", ".join(ahead.lines)):
            yield f"{name}: {left}" + ("" if status.refused else f"; {RUN} goes on")
        if ahead.to_review:
            if_you_like = "" if ahead.required else ", if you like"
            count = f"{ahead.to_review:,} to review{if_you_like}"
            yield f"{name}: {count}; `crosswind review {name}` lists them"
    yield from failure_lines(status.failures)
    if status.failures and not status.refused:
        yield what_next(status.failures, "crosswind run")


ROLES: Final = {
    Role.GENERATOR: "generator",
    Role.USER: "user model",
    Role.TARGET: "targets",
    Role.EVALUATOR: "evaluators",
    Role.CHECKER: "checks",
}


def _usd(amount: float | None) -> str:
    if amount is None:
        return "—"
    return "<$0.01" if 0 < amount < CENT else f"${amount:.2f}"


def _spending_lines(status: Status) -> Iterator[str]:
    """What all runs spent, by role. The table cannot tell: a target's line includes the user model
    and the evaluators, and none includes the generator."""
    reader = status.watch.reader
    roles = reader.spent_by_role()
    spent = {words: roles[role] for role, words in ROLES.items() if role in roles}
    if counted := reader.counted_usd():
        spent["cut off"] = counted
    if any(spent.values()):
        cents = in_cents([*spent.values()])
        parts = zip(spent, cents, strict=True)
        sum_words = " + ".join(f"{words} ${amount / 100:.2f}" for words, amount in parts)
        yield f"spent by all runs: ${sum(cents) / 100:.2f} = {sum_words}"
    unsettled = reader.unsettled_usd()
    if unsettled >= CENT:
        yield f"! {cut_off_words(unsettled)}; `crosswind run` asks what they are counted as"
    unmetered = sum(_of_real_models(status, reader.unmetered_calls()).values())
    unpriced = sum(_of_real_models(status, reader.unpriced_calls()).values()) - unmetered
    if unpriced:
        calls = plural(unpriced, "more call")
        yield f"{calls} at a price that is not known; `price` in config.yaml sets it"
    if unmetered:
        calls = plural(unmetered, "more call")
        yield f"{calls} of unknown cost, as no usable number of tokens was reported"


def _spending_json(status: Status) -> dict[str, Any]:
    """A sum is null where no price is known of any call in it."""
    reader = status.watch.reader
    unpriced = _of_real_models(status, reader.unpriced_calls())
    roles = {
        role: amount or (None if any(of is role for of, _ in unpriced) else amount)
        for role, amount in reader.spent_by_role().items()
    }
    return {
        "spent_usd": reader.spent_usd() or _nothing_spent(status),
        "spent_usd_by_role": roles,
        "unpriced_calls": sum(unpriced.values()),
    }


def _nothing_spent(status: Status) -> float | None:
    """A sum of nothing; None where real models answered calls whose price is not known."""
    return None if _of_real_models(status, status.watch.reader.unpriced_calls()) else 0.0


def in_cents(amounts: Sequence[float]) -> list[int]:
    """The amounts in whole cents that add up to the rounded sum."""
    exact = [amount * 100 for amount in amounts]
    cents = [int(amount) for amount in exact]
    # the remaining cents go to the amounts that were rounded down the most
    by_rest = sorted(range(len(exact)), key=lambda place: cents[place] - exact[place])
    for place in by_rest[: round(sum(exact)) - sum(cents)]:
        cents[place] += 1
    return cents


def _of_real_models(
    status: Status, calls: Mapping[tuple[Role, str], int]
) -> Mapping[tuple[Role, str], int]:
    """Those of these calls that real models answered."""
    config = status.session.config
    specs = (*config.models_beside_targets, *config.targets)
    real = {spec.label for spec in (*specs, *config.models.values()) if not spec.is_offline}
    return {key: count for key, count in calls.items() if key[1] in real}


def _money(status: Status) -> Iterator[str]:
    """The quote of the run at work, and the budgets."""
    board = status.board
    if board is not None and board.quote is not None:
        quote, spent, rest = board.quote, board.spent_usd or 0.0, board.rest_usd or 0.0
        yield (
            f"quoted at ${quote.low_usd:.2f} to ${quote.high_usd:.2f}: ${spent:.2f} spent, about "
            f"${rest:.2f} expected to follow"
        )
        if board.agreed_usd is not None and board.agreed_usd > quote.high_usd:
            yield f"agreed to since: up to ${board.agreed_usd:.2f}"
    config = status.session.config
    if config.run.budget is not None or config.workspace_budget is not None:
        yield from budget_words(config, status.watch.reader.spent_usd())


def _engine_line(status: Status) -> str:
    holder, board = status.holder, status.board
    if holder is None:
        last = status.session.unread() or _last_run_words(status)
        if status.refused:
            last = last.replace(RUN, f"once nothing is refused, {RUN}")
        return f"{NOBODY.format(status.session.workspace.root)}: {last}"
    if board is not None and board.engine is not None:
        return f"{board.state}, {board.spoken_words}: {holder}"
    if board is not None and board.state is EngineState.STARTING:
        return f"{board.state}: {holder}"
    # only its lock says so
    return f"at work, but it does not answer: {holder}"


def _last_run_words(status: Status) -> str:
    progress = status.watch.progress
    match _last_run(progress):
        case "stopped" if _is_all_done(status):  # it was to do again what there is
            return LAST_RUN["nothing left"]
        case "stopped" if (key := budget_to_raise(progress)) is not None:
            return LAST_RUN["stopped by"].format(key)
        case "lost" if lost := rows_unwritten(status.session.store_path):
            verb = "is" if lost == 1 else "are"
            return LAST_RUN["no room"].format(plural(lost, "row"), verb)
        case "done":
            how = _judged(status)
            failed = count_of(status.failures) if how == "unjudged" else 0
            return LAST_RUN["failed"].format(plural(failed, "row")) if failed else LAST_RUN[how]
        case how:
            return LAST_RUN[how]


def _judged(status: Status) -> str:
    """A key of `LAST_RUN`: the last run may have been to do less than all, as a pilot is or one
    that was only to reach an earlier stage."""
    progress = status.watch.progress
    benchmarks = {info.name for info in status.watch.benchmarks}
    targets = {target.id for target in status.session.config.targets}
    states = [
        state
        for (name, target), state in progress.targets.items()
        if name in benchmarks and target in targets
    ]
    more = any(ahead.to_judge_more for ahead in status.ahead.values())
    if not more and not any(state.evaluate.done for state in states):
        return "unjudged"
    # rows that no run has come to yet are not announced
    left = (
        any(ahead.lines)
        for name, ahead in status.ahead.items()
        if progress.stage_tally(name, Stage.EVALUATE).done
    )
    played = (state.evaluate.done + state.evaluate.failed < state.simulate.done for state in states)
    return "partly" if more or any(left) or any(played) else "done"


def _is_all_done(status: Status) -> bool:
    tallies = [
        status.watch.progress.stage_tally(name, stage)
        for name in status.ahead
        for stage in set(Stage) - {Stage.AGGREGATE}
    ]
    begun = all(tally.done == tally.total for tally in tallies)
    return begun and not any(any(ahead.lines) for ahead in status.ahead.values())


def _last_run(progress: Progress) -> str:
    """How the last run ended, as a key of `LAST_RUN`."""
    if progress.run_state is None:
        return "imported" if any(tally.total for tally in progress.stages.values()) else "none"
    end = progress.run_end
    return "lost" if end is None else end.value


def _remarks(board: Board | None) -> Sequence[str]:
    if board is None:
        return ()
    limits = [
        f"{limit.model}: {limit.at_once} let through at once, {limit.waiting} calls wait"
        for limit in board.limits
    ]
    workers = [workers_words(board.agents)] if board.agents else []
    workers += [f"{agent.name} on {agent.host}: {agent.words}" for agent in board.agents]
    return [*board.pauses.values(), *workers, *limits, *board.notices]
