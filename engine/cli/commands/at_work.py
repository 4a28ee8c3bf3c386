"""The commands that run something, and those about the engine at work."""

from __future__ import annotations

from math import inf
from typing import ClassVar, Final

from engine.benchmark import Stage
from engine.branches import STANCE
from engine.cli.commands.typed import (
    BENCHMARK,
    DETACH,
    FAIL_UNDER,
    HEADLESS,
    JSON,
    TRUST,
    WHOSE_ID,
    YES,
    CliCommand,
    flag,
    option,
    several,
    words,
)

MOST_WORKERS: Final = 64


def dollars(text: str) -> float:
    """An amount such as `2.5` or `$2.5`. argparse turns a `ValueError` into an error that names
    the option."""
    amount = float(text.removeprefix("$"))
    if not 0 < amount < inf:
        raise ValueError
    return amount


def workers(text: str) -> int:
    """argparse turns a `ValueError` into an error that names the option."""
    number = int(text)
    if not 1 <= number <= MOST_WORKERS:
        raise ValueError
    return number


class RunCommand(CliCommand):
    does = "do what is missing: write metrics and scenarios, simulate, evaluate, aggregate"
    more = (
        f"Stages: {', '.join(Stage)}.\n"
        "Ctrl-C finishes the messages being written and stops; a second Ctrl-C stops at once. The "
        "next run goes on from there."
    )
    examples: ClassVar = {
        "crosswind run --dry-run": "what each stage would cost",
        "crosswind run --dry-run --strict": "lint, for CI",
        "crosswind run --until gen_scenarios": "write metrics and scenarios only",
        "crosswind run giving-in --target alpha": "one target of one benchmark",
        "crosswind run --pilot": "a few conversations of every metric",
        "crosswind run m01_s002": "what one scenario lacks",
        "crosswind run --headless --yes": "in a script, without questions",
        "crosswind run --fail-under positive=0.9": "exit with 1 if a target is below",
    }
    runs = "running.run"

    names: list[str] = words(
        "BENCHMARK|ID",
        "of an id, or its beginning: what is missing or failed of it (default: everything)",
    )
    stage: list[str] = several("STAGE", "run this stage only; may be repeated")
    until: str | None = option("STAGE", "stop after this stage and say what to look at")
    target: list[str] = several(
        "ID", "run this target only, also one that was parked; may be repeated"
    )
    anew: bool = flag("start over if the store is gone, even though files hold earlier results")
    spent: float | None = option(
        "USD",
        "after a kill: what all runs have cost by now, as the provider's page says",
        type=dollars,
    )
    stale: bool = flag("also redo what is out of date")
    force: bool = flag("redo everything")
    resubmit: bool = flag(
        "submit again what may be in a batch already, of which the provider does not say so yet; "
        "both may be billed"
    )
    pilot: bool = flag(
        "play a few conversations of every metric, and show problems before all are paid for; "
        "what it plays is kept and counts"
    )
    scenarios: int | None = option(
        "N",
        "with --pilot: scenarios of each metric, one variant each, played with every target "
        "(default: 2)",
        type=int,
    )
    budget: float | None = option(
        "USD", "with --pilot: stop before this is spent (default: 1)", type=dollars
    )
    dry_run: bool = flag("show calls, tokens and price of every stage; ask no model")
    strict: bool = flag(
        "with --dry-run: list what the lint rules find in metrics and scenarios, and exit with 1 "
        "if there is anything"
    )
    explain: bool = flag("list the rows that would be done, each with its reason; ask no model")
    fail_under: list[str] = FAIL_UNDER
    yes: bool = YES
    trust: bool = TRUST
    workers: int | None = option(
        "N",
        "make the calls in N processes of this machine (default: in those of `cluster` in "
        "config.yaml, else in the engine itself, which is enough for nearly everybody)",
        type=workers,
    )
    headless: bool = HEADLESS
    detach: bool = DETACH
    json: bool = flag("print the result, or with --dry-run the plan, as JSON")


class WatchCommand(CliCommand):
    does = "open the app on the current run, from any number of terminals"
    runs = "headless.watch"


class StatusCommand(CliCommand):
    does = "show how far each benchmark is, and what the engine is doing"
    examples: ClassVar = {"crosswind status --json": "for scripts"}
    runs = "status.status"

    json: bool = JSON


class PauseCommand(CliCommand):
    does = "finish the messages being written, then start nothing new"
    runs = "engine_handle.pause"


class ResumeCommand(CliCommand):
    does = "go on after a pause"
    runs = "engine_handle.resume"


class StopCommand(CliCommand):
    does = "finish the messages being written, then end the run"
    more = "Everything is kept; `crosswind run` goes on from there."
    examples: ClassVar = {"crosswind stop --wait": "return when everything is on disk"}
    runs = "engine_handle.stop"

    now: bool = flag("end at once, without the messages being written")
    wait: bool = flag("return only when it has ended")


_IDS: Final = "of a conversation, or the beginning of the ids of several"


class EvaluateCommand(CliCommand):
    does = "judge transcripts again; earlier verdicts are kept"
    examples: ClassVar = {
        "crosswind evaluate m01_s002_v01__alpha": "one conversation",
        "crosswind evaluate m01 --evaluator second": "a metric's, by another judge",
    }
    runs = "running.evaluate"

    ids: list[str] = words("ID", _IDS, least=1)
    evaluator: str | None = option(
        "NAME", "the judge: a name in `models:` (default: that of config.yaml)"
    )
    benchmark: str | None = WHOSE_ID
    json: bool = JSON
    detach: bool = DETACH
    yes: bool = YES
    trust: bool = TRUST


class SimulateCommand(CliCommand):
    does = "play conversations again and judge them; earlier takes are kept"
    examples: ClassVar = {
        "crosswind simulate m01_s002_v01__alpha": "one conversation",
        "crosswind simulate m01_s002": "of a scenario and its variants",
        "crosswind simulate --invalid": "where the user model left its role",
    }
    runs = "running.simulate"

    ids: list[str] = words("ID", _IDS)
    invalid: bool = flag(
        "only those whose user model did not do its part: among the ids, or all without ids"
    )
    benchmark: str | None = WHOSE_ID
    json: bool = JSON
    detach: bool = DETACH
    yes: bool = YES
    trust: bool = TRUST


_ROLES: Final = ["generator", "user", "evaluator"]


class ValidateCommand(CliCommand):
    does = "play or judge a benchmark with another model in one role: does the ranking hold?"
    more = (
        "Another generator or user model plays a branch of the benchmark, in "
        "benchmarks/NAME/validation/; another evaluator judges the original's transcripts. The "
        "original's results stay as they are. The same command continues a run that was stopped. "
        "What a swap changes is shown beside what a replay changes, the same model once more. The "
        "order of the targets holds only if differences stay within "
        "`validation.equivalence_points` of config.yaml, as it was when the run began."
    )
    examples: ClassVar = {
        "crosswind validate giving-in --swap evaluator --with b": "another judge",
        "crosswind validate giving-in --replay evaluator": "the same judge",
        "crosswind validate giving-in --report": "what was found",
    }
    runs = "validating.validate"

    benchmark: str | None = BENCHMARK
    swap: str | None = option(
        "ROLE",
        "the role that another model takes: generator, user or evaluator; or `stance`: the same "
        "user model without hidden goal, metric and landmarks, which needs no --with",
        choices=[*_ROLES, STANCE],
        one_of="role",
    )
    replay: str | None = option(
        "ROLE",
        "the role that the same model takes once more, one of these three",
        choices=_ROLES,
        one_of="role",
    )
    model: str | None = option(
        "NAME", "the other model: a name in `models:` or a target's id", name="--with"
    )
    stale: bool = flag("also redo what is out of date")
    dry_run: bool = flag("show calls, tokens and price; ask no model")
    yes: bool = YES
    trust: bool = TRUST
    report: bool = flag("show what earlier runs found; run nothing")
    json: bool = flag("print the report, or with --dry-run the plan, as JSON")
    headless: bool = flag("changes nothing: this command never opens the app")
