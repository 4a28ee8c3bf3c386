"""Reads from a benchmark's files, as they are now, what counts; and finds what is counted otherwise
than the store says, or is stale."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from engine.benchmark import ConversationKey, Metric
from engine.checks import UserAuditMode
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, config_of
from engine.config.workspace import Workspace
from engine.jury import AskedConversations, Counts, Jury
from engine.pipeline.review.reviews import standing_acts
from engine.pipeline.scenario_edits import reader_of_files
from engine.store.reader import Reader
from engine.store.tables import ReviewAction, ReviewKind, ScenarioRow


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
