"""What came from other models than those that were asked, of what the results rest on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from engine.analysis.figures import ServedByOthers
from engine.benchmark import ConversationKey, Speaker
from engine.pipeline.standing import StoredConversations
from engine.store.reader import Reader
from engine.store.tables import StoredTake, Verdict

_Counted = Collection[tuple[StoredTake, Sequence[Verdict]]]


def served_by_others(
    reader: Reader,
    benchmark: str,
    standing: StoredConversations,
    asked: Collection[ConversationKey],
) -> list[ServedByOthers]:
    """Of these conversations: replies of each target, then messages of the user model, then
    verdicts of each judge. Nothing where everything came from whom it was asked of."""
    counted = [found for key, found in standing.counting.items() if key in asked]
    return [*_said(reader, benchmark, counted), *_judged(counted)]


def _said(reader: Reader, benchmark: str, counted: _Counted) -> Iterator[ServedByOthers]:
    by_others = reader.messages_by_others(benchmark)
    if not by_others:
        return
    for speaker in (Speaker.TARGET, Speaker.USER):
        asked_of: defaultdict[tuple[str | None, str], list[StoredTake]] = defaultdict(list)
        for take, _ in counted:
            asked_of[_asked(take, speaker)].append(take)
        for (target, model), takes in sorted(asked_of.items(), key=lambda one: str(one[0])):
            served: Counter[str] = Counter()
            for take in takes:
                served.update(by_others.get((take.seq, speaker), {}))
            if served:
                what = "messages of the user model" if target is None else f"replies of {target}"
                of = reader.messages_said([take.seq for take in takes], speaker)
                yield ServedByOthers(what, target, model, dict(served), of)


def _asked(take: StoredTake, speaker: Speaker) -> tuple[str | None, str]:
    """Which target, None for the user model; and which model."""
    if speaker is Speaker.USER:
        return None, take.user_model
    return take.key.target_id, take.model


def _judged(counted: _Counted) -> Iterator[ServedByOthers]:
    served: defaultdict[str, Counter[str]] = defaultdict(Counter)
    given: Counter[str] = Counter()
    for _, verdicts in counted:
        newest = {(one.judge, one.number): one for one in verdicts if one.passed is not None}
        for one in newest.values():
            given[one.judge] += 1
            if one.served_by is not None:
                served[one.judge][one.served_by] += 1
    for judge, names in sorted(served.items()):
        yield ServedByOthers(f"verdicts of {judge}", None, judge, dict(names), given[judge])
