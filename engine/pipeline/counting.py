"""Reads from a benchmark's files, as they are now, what counts; and finds what is counted otherwise
than the store says, or is stale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from engine.benchmark import ConversationKey, Metric, Stage
from engine.checks import CheckKind, UserAuditMode
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, config_of
from engine.config.workspace import Workspace
from engine.jury import AskedConversations, Counts, Jury, PlainVote
from engine.pipeline.review.reviews import standing_acts
from engine.pipeline.scenario_edits import reader_of_files
from engine.store.reader import Reader
from engine.store.tables import CheckRow, ReviewAction, ReviewKind, ScenarioRow, StoredTake, Verdict


@dataclass(frozen=True, slots=True)
class StoredConversations:
    """The takes, verdicts and checks of a benchmark."""

    newest: Mapping[ConversationKey, StoredTake]
    """The newest take of each conversation, complete or not."""
    counting: Mapping[ConversationKey, tuple[StoredTake, Sequence[Verdict]]]
    """The take that counts, where there is one, and all verdicts on it, oldest first."""
    checks: Mapping[int, Sequence[CheckRow]] = field(default_factory=dict)
    """The checks of each take, by its `seq`, oldest first."""
    failed: Mapping[tuple[Stage, str], str] = field(default_factory=dict)
    """The reasons of failed rows of work, by stage and id."""
    takes: Sequence[StoredTake] = ()
    """Every take, by conversation and number."""
    settled: frozenset[str] = frozenset()
    """The ids of conversations that are played and judged, and left out of all above."""

    @classmethod
    def of(
        cls,
        reader: Reader,
        benchmark: str,
        *,
        brief: bool = False,
        is_settled: Callable[[tuple[PlainVote, ...]], bool] | None = None,
    ) -> StoredConversations:
        """Read all of them from the store, verdicts as `Reader.verdicts_of` does; without those
        that have all they need, which `is_settled` says by the verdicts on one."""
        checks: defaultdict[int, list[CheckRow]] = defaultdict(list)
        for check in reader.checks(benchmark):
            checks[check.take].append(check)
        failed = {(row.stage, row.unit): row.reason or "" for row in reader.failed_units(benchmark)}
        settled: frozenset[str] = frozenset()
        if is_settled is not None:
            # most conversations have the same votes
            is_settled = lru_cache(is_settled)
            votes = reader.votes_on_newest(benchmark)
            settled = frozenset(unit for unit, given in votes if is_settled(given))
            settled -= {unit for stage, unit in failed if stage is Stage.SIMULATE}
        takes = reader.takes(benchmark, but=settled)
        # takes are ordered by number, so the last of each key remains
        finished = {take.key: take for take in takes if take.finished}
        verdicts = reader.verdicts_of((take.seq for take in finished.values()), brief=brief)
        return cls(
            newest={take.key: take for take in takes},
            takes=takes,
            counting={key: (take, verdicts[take.seq]) for key, take in finished.items()},
            checks=dict(checks),
            failed=failed,
            settled=settled,
        )

    def unanswered_checks(self, take: int) -> set[CheckKind]:
        """The kinds of checks that were asked for and gave no usable answer."""
        rows = self.checks.get(take, ())
        return {row.kind for row in rows} - {row.kind for row in rows if row.unusable is None}

    def newest_checks(self, take: int) -> list[CheckRow]:
        """The newest usable check of each kind, without those that had nothing to ask about."""
        newest = {row.kind: row for row in self.checks.get(take, ()) if row.unusable is None}
        return [row for row in newest.values() if row.answers]


@dataclass(frozen=True, slots=True)
class WantedConversation:
    """A conversation that the current benchmark asks for."""

    key: ConversationKey
    scenario: ScenarioRow
    metric: Metric


def asked_of(definition: Definition, config: Config, reader: Reader) -> AskedConversations:
    """What is asked for by the files, and by the scenarios that the reader shows."""
    return AskedConversations(
        benchmark=definition.name,
        scenarios={
            row.scenario.id: row.scenario.metric_id
            for row in reader.scenarios(definition.name)
            if row.played
        },
        metrics=tuple(metric.id for metric in definition.metrics),
        targets=tuple(target.id for target in config.targets),
        samples=config.generation.num_samples,
        rejected=_rejected(reader, definition.name),
    )


def _rejected(reader: Reader, benchmark: str) -> Sequence[str]:
    """The scenarios of which a rejection is the newest that a person said."""
    newest = {
        item.id: act.action
        for act in standing_acts(reader.reviews(benchmark))
        for item in act.items
        if item.kind == ReviewKind.SCENARIO
    }
    return sorted(name for name, action in newest.items() if action is ReviewAction.REJECT)


def counts_of(definition: Definition, config: Config, reader: Reader) -> Counts:
    """What counts by the files as they are. Raises `InputError` if `scenarios.json` is invalid."""
    asked = asked_of(definition, config, reader_of_files(definition, config, reader))
    return Counts(asked, config.jury, config.user_audit is UserAuditMode.INVALIDATE)


def counts_without_files(benchmark: str) -> Counts:
    """As `counts_of`, where the workspace has no definition of the benchmark any more."""
    return Counts(AskedConversations(benchmark, {}, (), (), 0), Jury(()))


def counts_in(workspace: Workspace, config: Config, benchmark: str, reader: Reader) -> Counts:
    """As `counts_of`, by the benchmark's name. Raises `InputError`."""
    path = workspace.definition_path(benchmark)
    if not path.is_file():
        return counts_without_files(benchmark)
    return counts_of(load_definition(path), config_of(config, benchmark), reader)


def wanted_conversations(
    definition: Definition, config: Config, reader: Reader, *, but: Collection[str] = ()
) -> Iterator[WantedConversation]:
    """Yield every conversation that is asked for: every playable scenario of every current metric,
    with every target and sample; without those whose ids are in `but`."""
    asked = asked_of(definition, config, reader)
    metrics = {metric.id: metric for metric in definition.metrics}
    rows = {row.scenario.id: row for row in reader.scenarios(definition.name)}
    left = (name for name in asked.ids if name not in but)
    for key in map(ConversationKey.parse, left) if but else asked.conversations():
        row = rows[key.scenario_id]
        yield WantedConversation(key, row, metrics[row.scenario.metric_id])


def wanted_now(
    definition: Definition, config: Config, reader: Reader
) -> Iterator[WantedConversation]:
    """As `wanted_conversations`, by `scenarios.json` as it is, for those who only read. Raises
    `InputError`."""
    return wanted_conversations(definition, config, reader_of_files(definition, config, reader))
