"""Where the numbers of a benchmark come from, from the rows that count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from engine.analysis.provenance import NamesByModel, Provenance
from engine.benchmark import ConversationKey, Role, Stage
from engine.config.schema import Config
from engine.identity import digest
from engine.jury import counting
from engine.pipeline.standing import StoredConversations
from engine.store.reader import Reader
from engine.store.tables import CheckRow, Depends, StoredTake, Verdict, utc_datetime


@dataclass
class _Found:
    """What the rows of one target say."""

    prompts: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    targets: set[str] = field(default_factory=set)
    user_models: set[str] = field(default_factory=set)
    judges: set[str] = field(default_factory=set)
    checkers: set[str] = field(default_factory=set)
    first_at: int | None = None
    last_at: int | None = None

    def add(
        self, take: StoredTake, verdicts: Iterable[Verdict], checks: Iterable[CheckRow]
    ) -> None:
        self.targets.add(take.model)
        self.user_models.add(take.user_model)
        self._made(Stage.SIMULATE, take.depends)
        self.first_at = min(filter(None, (self.first_at, take.at)), default=None)
        for verdict in verdicts:
            self.judges.add(verdict.judge)
            self._made(Stage.EVALUATE, verdict.depends)
            self.last_at = max(filter(None, (self.last_at, verdict.at)), default=None)

        for check in checks:
            self.checkers.add(check.model)
            self._made(f"checks.{check.kind}", check.depends)

    def _made(self, what: str, depends: Depends | None) -> None:
        if depends is not None and "prompt" in depends:
            self.prompts[what].add(depends["prompt"])


def provenances(
    reader: Reader,
    benchmark: str,
    config: Config,
    standing: StoredConversations,
    asked: Collection[ConversationKey],
) -> dict[str, Provenance]:
    """By target, of these conversations; a target without one that counts is left out."""
    found: defaultdict[str, _Found] = defaultdict(_Found)
    for key in standing.counting.keys() & asked:
        take, verdicts = standing.counting[key]
        checks = standing.newest_checks(take.seq)
        found[key.target_id].add(take, counting(verdicts, config.jury), checks)
    served = reader.served_names(benchmark)
    program, configuration = version("crosswind"), digest(config.public())
    return {
        target: Provenance(
            version=program,
            configuration=configuration,
            prompts={stage: sorted(digests) for stage, digests in one.prompts.items()},
            targets=_served(served, Role.TARGET, one.targets),
            user_models=_served(served, Role.USER, one.user_models),
            judges=_served(served, Role.EVALUATOR, one.judges),
            checkers=_served(served, Role.CHECKER, one.checkers),
            first_at=_iso(one.first_at),
            last_at=_iso(one.last_at),
        )
        for target, one in sorted(found.items())
    }


def _served(
    served: Mapping[tuple[Role, str], Collection[str]], role: Role, labels: Iterable[str]
) -> NamesByModel:
    return {label: sorted(served.get((role, label), ())) for label in sorted(labels)}


def _iso(at: int | None) -> str | None:
    """None where it is not known, or a damaged row holds what no clock has shown."""
    if at is None:
        return None
    try:
        return utc_datetime(at).isoformat(timespec="seconds")
    except OverflowError:
        return None
