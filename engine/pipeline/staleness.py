"""What of a conversation's take and of the verdicts that count for it is stale, and why."""

from __future__ import annotations

from collections.abc import Sequence

from engine.analysis.staleness import UP_TO_DATE, Stale
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.jury import counting
from engine.pipeline.judge import VerdictInputs
from engine.pipeline.order import changed_inputs
from engine.pipeline.play import TakeInputs, WantedConversation, wanted_conversations
from engine.pipeline.standing import StoredConversations
from engine.store.reader import Reader
from engine.store.tables import StoredTake, Verdict


class StaleFinder:
    """Compares with what would be asked today."""

    def __init__(self, definition: Definition, config: Config) -> None:
        self._takes = TakeInputs(definition, config)
        self._verdicts = VerdictInputs()
        self._judges = {judge.label: judge for judge in config.judges}

    def of(self, one: WantedConversation, take: StoredTake, votes: Sequence[Verdict]) -> Stale:
        """`votes` are the verdicts that count; where there are none, nothing can be stale."""
        if not votes:
            return UP_TO_DATE
        changed = tuple(changed_inputs(take.depends, self._takes.depends(one)))
        verdicts = tuple(why for vote in votes if (why := self.why(one, vote)))
        return Stale(changed, verdicts) if changed or verdicts else UP_TO_DATE

    def why(self, one: WantedConversation, vote: Verdict) -> tuple[str, ...]:
        """What changed since a verdict was given; nothing where nothing did, or is not known."""
        if vote.depends is None:
            return ()
        judge = self._judges.get(vote.judge)
        if judge is None:
            return ("evaluator",)
        return tuple(self._verdicts.changed(one.metric, judge, vote))


def stale_takes(definition: Definition, config: Config, reader: Reader) -> dict[int, Stale]:
    """Of each take that counts and is stale, or has a verdict that counts and is: why, by its
    `seq`."""
    finder, standing = (
        StaleFinder(definition, config),
        StoredConversations.of(reader, definition.name),
    )
    found: dict[int, Stale] = {}
    for one in wanted_conversations(definition, config, reader):
        take, verdicts = standing.counting.get(one.key, (None, ()))
        if take is not None and (stale := finder.of(one, take, counting(verdicts, config.jury))):
            found[take.seq] = stale
    return found
