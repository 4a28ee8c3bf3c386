"""Validation runs: play or judge a benchmark again with one model swapped, or with the same models,
and report what that changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from engine.analysis.validation import SideOutcome, ValidationSide, validation_report
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import Role, Stage, When
from engine.branches import VALIDATION, Branch, folder_of
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, ModelSpec, config_of
from engine.config.workspace import Workspace
from engine.errors import InputError, Problem
from engine.files import read_regular, replace_file
from engine.jury import Jury
from engine.pipeline.check import usual_checks
from engine.pipeline.costs.ranges import NONE, Calls, Range, StageCalls
from engine.pipeline.counting import (
    StoredConversations,
    counts_of,
    wanted_conversations,
    wanted_now,
)
from engine.pipeline.judge import askings_of
from engine.pipeline.models import model_digest
from engine.pipeline.order import Order
from engine.pipeline.plan import RunPlan, judging_calls, plan_run, playing_calls
from engine.pipeline.planner import Planner, total_words
from engine.stages.generate import combinations
from engine.store.reader import Reader

REPORT_FILE: Final = "validation.json"
BOUND_FILE: Final = "bound.json"
"""Keeps the equivalence bound from before the run: one chosen by its results proves nothing."""
SCENARIOS_FILE: Final = "scenarios.json"
_OURS: Final = "_crosswind"
_HEADER: Final = """\
# Made by `crosswind validate`: the same benchmark as two folders above, with metrics and scenarios
# that another model writes. What is changed here changes nothing there.
"""


@dataclass(frozen=True, slots=True)
class Validation:
    """What is played or judged again, under a configuration."""

    workspace: Workspace
    config: Config
    branch: Branch

    @property
    def benchmark(self) -> str:
        """The original."""
        return self.branch.benchmark

    @property
    def replay(self) -> Validation:
        """The replay that it is compared with."""
        return replace(self, branch=replace(self.branch, name=None, stance=None))

    @property
    def played_benchmark(self) -> str:
        """The benchmark that receives its rows: the original for a judge, else the branch."""
        return self.benchmark if self.branch.role is Role.EVALUATOR else str(self.branch)

    @property
    def folder(self) -> Path:
        return self.workspace.root / folder_of(str(self.branch))

    @property
    def replacement(self) -> ModelSpec:
        """The model that takes the role; in a replay, the first that has it. Raises
        `InputError`."""
        name = self.branch.name
        return self.current_models[0] if name is None else self.config.model_named(name)

    @property
    def labels(self) -> tuple[str, str]:
        """The labels for the role before and after the change. Raises `InputError`."""
        present = " and ".join(spec.label for spec in self.current_models)
        now, other = self.config.user_model.stance, self.branch.stance
        if other is not None:
            return f"{present} ({now})", f"{present} ({other})"
        return present, present if self.branch.is_replay else self.replacement.label

    @property
    def current_models(self) -> tuple[ModelSpec, ...]:
        """The models that have the role now."""
        match self.branch.role:
            case Role.EVALUATOR:
                return self.config.judges
            case Role.USER:
                return (self.config.user_model,)
            case _:
                return (self.config.generator,)

    def definition(self) -> Definition:
        """The definition of the original. Raises `InputError`."""
        return load_definition(self.workspace.definition_path(self.benchmark))

    def order(self, *, stale: bool = False) -> Order:
        match self.branch.role:
            case Role.EVALUATOR:
                return Order(
                    (self.benchmark,),
                    stages=frozenset({Stage.EVALUATE, Stage.AGGREGATE}),
                    stale=stale,
                    evaluator=self.branch.name,
                    replay=self.branch.is_replay,
                )
            case Role.USER:
                stages = frozenset({Stage.SIMULATE, Stage.EVALUATE, Stage.AGGREGATE})
                return Order((str(self.branch),), stages=stages, stale=stale)
            case _:
                return Order((str(self.branch),), stale=stale)


# Checks


def check_validation(asked: Validation, reader: Reader) -> None:
    """Raise `InputError` with every reason why it cannot be run."""
    asked.workspace.require_benchmarks([asked.benchmark])
    if Branch.parse(asked.benchmark) is not None:
        what = f"`{asked.benchmark}` is a validation run itself"
        raise InputError(Problem(what, hint="name the benchmark that it belongs to"))
    problems = [*_same_model(asked), *_too_few_targets(asked)]
    if not problems:
        problems += _nothing_to_compare(asked, reader)
    if problems:
        raise InputError(problems)


def _same_model(asked: Validation) -> Iterator[Problem]:
    if asked.branch.is_replay:
        return
    if asked.branch.stance is not None:
        if asked.branch.stance is asked.config.user_model.stance:
            what = f"the user model is {asked.branch.stance} already"
            yield Problem(what, path=asked.config.path, key="user_model.stance")
        return
    other, role = asked.replacement, asked.branch.role
    if role is Role.EVALUATOR:
        same = other.label in asked.config.jury.judges
    else:
        same = model_digest(other) == model_digest(asked.current_models[0])
    if same:
        yield Problem(
            f"`{asked.branch.name}` is {other.label}, which is the {role.value} already",
            path=asked.config.path,
            hint="a validation run needs another model; write one under `models:`",
        )


def _too_few_targets(asked: Validation) -> Iterator[Problem]:
    if len(asked.config.targets) < 2:
        yield Problem(
            "there is one target, and a ranking needs at least two",
            path=asked.config.path,
            key="targets",
            hint="add a target and run the benchmark before it is validated",
        )


def _nothing_to_compare(asked: Validation, reader: Reader) -> Iterator[Problem]:
    """Yield a problem if the original has no results to compare with."""
    results = _results_now(asked, reader)
    scored = {result.key.target_id for result in results if result.passed is not None}
    if len(scored) >= 2:
        return
    run = f"`crosswind run {asked.benchmark}`"
    if not scored:
        judges = " and ".join(asked.config.jury.judges)
        yield Problem(
            f"no finished conversation of `{asked.benchmark}` has a verdict of {judges}, so there "
            "is no ranking to compare with",
            hint=f"{run} first; with --stale it judges anew what other judges have judged",
        )
        return
    [only] = scored
    yield Problem(
        f"of the configured targets only `{only}` has verdicts in `{asked.benchmark}`, and a "
        "ranking needs at least two",
        hint=f"{run} plays the others",
    )


# Files


def place_branch(asked: Validation) -> None:
    """Create the branch's folder, or update what it takes from the original. Only whoever holds the
    workspace may do this.

    Raises `InputError`. Nothing of the original is changed.
    """
    if asked.branch.role is Role.EVALUATOR:
        return
    original = asked.definition()
    asked.workspace.definition_path(
        asked.played_benchmark
    )  # raises for a path outside of the workspace
    if asked.branch.role is Role.USER:
        scenarios = original.path.with_name(SCENARIOS_FILE)
        if not scenarios.exists():
            hint = f"`crosswind repair {asked.benchmark} --files` writes it"
            raise InputError(Problem("the scenarios are not in their file", scenarios, hint=hint))
        _put_file(asked.folder / original.path.name, read_regular(original.path))
        if _rows(scenarios) != _rows(asked.folder / SCENARIOS_FILE):
            _put_file(asked.folder / SCENARIOS_FILE, read_regular(scenarios))
    else:
        path = asked.folder / original.path.name
        if not path.exists() or _text(load_definition(path)) != _text(original):
            _put_file(path, _without_metrics(original, path).encode())


def _put_file(path: Path, content: bytes) -> None:
    """Write a file unless it already has this content. Raises `InputError`."""
    try:
        if path.exists() and read_regular(path) == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, is_only_writer=True)
    except OSError as error:
        what = f"this cannot be written: {error.strerror or 'unknown reason'}"
        raise InputError(Problem(what, path)) from None


def _rows(path: Path) -> object:
    """The scenarios of a file, without our bookkeeping; None where it cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        rows = json.loads(read_regular(path))
        if isinstance(rows, list):
            return [
                {key: value for key, value in row.items() if key != _OURS}
                if isinstance(row, dict)
                else row
                for row in rows
            ]
    return None


def _text(definition: Definition) -> tuple[str, str, str | None]:
    return definition.title, definition.description, definition.user_context


def _without_metrics(original: Definition, path: Path) -> str:
    """A definition without the original's metrics. Metrics that the branch has already are kept, so
    that they show up as stale."""
    content: dict[str, Any] = {"name": original.title, "description": original.description}
    if original.user_context is not None:
        content["scenario"] = {"user_context": original.user_context}
    if path.exists():
        content["metrics"] = [
            {
                "id": metric.id,
                "name": metric.name,
                "type": metric.track.value,
                "definition": metric.definition,
                "examples": list(metric.examples),
                **({} if metric.when is When.ANYWHERE else {"when": metric.when.value}),
            }
            for metric in load_definition(path).metrics
        ]
    return _HEADER + yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=96)


def state_bound(asked: Validation, reader: Reader) -> None:
    """Store the configured equivalence bound before anything is played or judged. Once something
    is, an existing bound stays and a missing one is not added. Raises `InputError`."""
    path = asked.folder / BOUND_FILE
    if path.exists() or any(
        outcome.passed is not None for outcome in _results_after(asked, reader)
    ):
        return
    stated = {"equivalence_points": asked.config.validation.equivalence_points}
    _put_file(path, (json.dumps(stated) + "\n").encode())


def stated_bound(asked: Validation) -> float | None:
    """The stored bound, as a rate; None where none was stored or it cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        match json.loads(read_regular(asked.folder / BOUND_FILE)):
            case {"equivalence_points": float() | int() as points} if 0 < points < 100:
                return points / 100
    return None


# Costs


def plan_validation(asked: Validation, planner: Planner, *, stale: bool = False) -> RunPlan:
    """Plan and price it from the store and the files; writes nothing."""
    is_judge = asked.branch.role is Role.EVALUATOR and not asked.branch.is_replay
    evaluator = asked.replacement if is_judge else None
    plan = _plan(asked, planner, evaluator, stale=stale)
    return plan.priced(planner.estimator(asked.replacement))


def _plan(
    asked: Validation, planner: Planner, evaluator: ModelSpec | None, *, stale: bool
) -> RunPlan:
    begun = any(True for _ in planner.reader.scenarios(asked.played_benchmark))
    if begun and planner.workspace.definition_path(asked.played_benchmark).exists():
        order = asked.order(stale=stale)
        [bench] = planner.check(order)
        return plan_run(bench, order, evaluator)
    return _first_plan(asked, planner.reader)


def _first_plan(asked: Validation, reader: Reader) -> RunPlan:
    """The plan for a branch that holds nothing yet."""
    config, definition = config_of(asked.config, asked.played_benchmark), asked.definition()
    calls: list[StageCalls] = []
    assumed: list[str] = []
    if asked.branch.role is Role.GENERATOR:
        metrics = max(1, len(definition.metrics))
        per_metric = config.generation.scenarios_per_metric
        variants = metrics * per_metric * len(combinations(config.demographics))
        calls += _generation_calls(asked, config.generator, metrics, per_metric, variants)
        assumed.append(f"counted as {metrics} metrics, as many as there are now")
        count = variants * config.generation.num_samples
        conversations = {target.id: count for target in config.targets}
    else:
        conversations = dict.fromkeys((target.id for target in config.targets), 0)
        for conversation in wanted_conversations(definition, config, reader):
            conversations[conversation.key.target_id] += 1
    for target in config.targets:
        new = Range.exactly(conversations[target.id])
        askings, checks = askings_of(config, None), new * usual_checks(config)
        calls += playing_calls(config, target, new)
        calls += judging_calls(config, target, askings, new, checks)
    return RunPlan(asked.played_benchmark, (), (), calls, assumed)


def _generation_calls(
    asked: Validation, generator: ModelSpec, metrics: int, per_metric: int, variants: int
) -> Iterator[StageCalls]:
    def answers(count: int, items: int) -> Calls:
        return Calls(Role.GENERATOR, generator, Range.exactly(count), items=items)

    single = Range.exactly(1)
    yield StageCalls(Stage.GEN_METRICS, None, single, (answers(1, metrics),))
    parts, scenarios = [answers(metrics, per_metric)], NONE
    if asked.config.demographics:
        parts.append(answers(variants, 1))
        scenarios = Range.exactly(variants)
    rows, written = Range.exactly(metrics + variants), Range.exactly(metrics * per_metric)
    yield StageCalls(Stage.GEN_SCENARIOS, None, rows, parts, written, scenarios)


# Results


def results_of(
    definition: Definition,
    config: Config,
    reader: Reader,
    jury: Jury,
    *,
    only: bool = False,
) -> Iterator[SideOutcome]:
    """Yield what counts for each wanted conversation; with `only`, by verdicts of `jury` alone."""
    stored = StoredConversations.of(reader, definition.name)
    counts = replace(counts_of(definition, config, reader), jury=jury)
    for conversation in wanted_now(definition, config, reader):
        take, verdicts = stored.counting.get(conversation.key, (None, ()))
        if only:
            verdicts = [verdict for verdict in verdicts if jury.holds(verdict)]
        passed = None if take is None else counts.verdicts_on(take, verdicts).passed
        yield SideOutcome(
            conversation.key, conversation.metric.id, conversation.metric.track, passed
        )


def report_of(asked: Validation, reader: Reader) -> ValidationReport:
    """Compare both sides in their current state, and with the replay. Raises `InputError`."""
    if asked.branch.is_replay:
        return _report(asked, reader)
    replay = _replay_of(asked, reader)
    return _report(asked, reader, replay, "" if replay else _costs(asked.replay, reader))


def _report(
    asked: Validation,
    reader: Reader,
    replay: ValidationReport | None = None,
    replay_costs: str = "",
) -> ValidationReport:
    before, after = asked.labels
    return validation_report(
        asked.branch,
        ValidationSide(before, _results_now(asked, reader)),
        ValidationSide(after, _results_after(asked, reader)),
        bound=stated_bound(asked),
        replay=replay,
        replay_costs=replay_costs,
        scripted=_scripted(asked),
    )


def _replay_of(asked: Validation, reader: Reader) -> ValidationReport | None:
    """The report of the replay; None where it has nothing to compare yet."""
    try:
        report = _report(asked.replay, reader)
    except InputError:  # its files are missing or invalid
        return None
    return report if report.tracks else None


def _costs(asked: Validation, reader: Reader) -> str:
    """The calls and cost of a validation run, in words."""
    planner = Planner(asked.workspace, asked.config, reader)
    try:
        return total_words(plan_validation(asked, planner).total)
    except InputError:  # a key or a file is missing: running it says which
        return "`--dry-run` says what it takes"


def _results_after(asked: Validation, reader: Reader) -> list[SideOutcome]:
    """The outcomes of the other side. Raises `InputError`."""
    config = asked.config
    if asked.branch.role is Role.EVALUATOR:
        others = Jury((asked.replacement.label,), config.jury.passes)
        jury = config.jury.replayed if asked.branch.is_replay else others
        return list(results_of(asked.definition(), config, reader, jury, only=True))
    branch = load_definition(asked.workspace.definition_path(asked.played_benchmark))
    return list(results_of(branch, config, reader, config.jury))


def _results_now(asked: Validation, reader: Reader) -> list[SideOutcome]:
    """The outcomes of the original. When judges are compared, only the configured judges' verdicts
    are considered, not people's or the other judge's."""
    only = asked.branch.role is Role.EVALUATOR
    config = asked.config
    return list(results_of(asked.definition(), config, reader, config.jury, only=only))


def _scripted(asked: Validation) -> Iterable[str]:
    config = asked.config
    specs = [*config.models_beside_targets, *config.targets, asked.replacement]
    return (spec.label for spec in specs if spec.is_offline)


def report_json(report: ValidationReport) -> Mapping[str, Any]:
    """A report in the form of `validation.json`."""
    return asdict(report)


def write_report(asked: Validation, report: ValidationReport) -> Path:
    """Write it into the branch's folder. Raises `InputError`."""
    path = asked.folder / REPORT_FILE
    text = json.dumps(report_json(report), ensure_ascii=False, indent=2) + "\n"
    _put_file(path, text.encode("utf-8", "replace"))
    return path


def validations(workspace: Workspace, config: Config, benchmark: str) -> list[Validation]:
    """The validation runs of a benchmark that have a folder, in alphabetical order."""
    folder = workspace.root / folder_of(benchmark) / VALIDATION
    folders = sorted(path for path in folder.glob("*") if path.is_dir())
    branches = [Branch.parse(f"{benchmark}@{path.name}") for path in folders]
    return [Validation(workspace, config, branch) for branch in branches if branch is not None]
