"""Which conversations are exported, read a few at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from engine.benchmark import ConversationKey, Metric, Scenario
from engine.jury import Jury, what_counts, why_unscored
from engine.scripted import scripted_note
from engine.store.mirror_rows import parts_of
from engine.store.reader import Reader
from engine.store.tables import MessageRow, StoredTake, Verdict

NOT_JUDGED: Final = "not judged yet"

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Conversation:
    """The take of a conversation that counts, with everything around it."""

    benchmark: str
    take: StoredTake
    scenario: Scenario | None
    """As it was when it was played; None where no file and no model ever told."""
    metric: Metric | None
    messages: Sequence[MessageRow]
    verdicts: Sequence[Verdict]
    passed: bool | None
    unscored: str | None

    @property
    def scripted(self) -> bool:
        """Whether a script had any part in it."""
        return self.scripted_note is not None

    @property
    def scripted_note(self) -> str | None:
        """Which parts of it scripts played; None where they played none."""
        return scripted_note(parts_of(self.take, [verdict.judge for verdict in self.verdicts]))


def conversations(
    reader: Reader,
    benchmark: str,
    *,
    metrics: Mapping[str, Metric],
    jury: Jury | None,
    keys: Collection[ConversationKey] | None = None,
) -> Iterator[Conversation]:
    """By scenario, target and sample; only `keys` where they are given."""
    history = reader.scenario_history(benchmark)
    takes = (take for take in reader.counting_takes(benchmark) if keys is None or take.key in keys)
    while some := list(islice(takes, _AT_ONCE)):
        said = reader.messages_of(take.seq for take in some)
        judged = reader.verdicts_of(take.seq for take in some)
        for take in some:
            stored = history.get(take.scenario_seq or 0)
            scenario = None if stored is None else stored.scenario
            verdicts = judged[take.seq]
            yield Conversation(
                benchmark=benchmark,
                take=take,
                scenario=scenario,
                metric=metrics.get(_metric_id(scenario, verdicts)),
                messages=said[take.seq],
                verdicts=verdicts,
                passed=what_counts(verdicts, jury),
                unscored=why_unscored(verdicts, jury) if verdicts else NOT_JUDGED,
            )


def _metric_id(scenario: Scenario | None, verdicts: Sequence[Verdict]) -> str:
    if scenario is not None:
        return scenario.metric_id
    return verdicts[-1].metric_id if verdicts else ""
