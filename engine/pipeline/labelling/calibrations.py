"""Compares the judges of a benchmark with people's labels, from the rows of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.analysis.calibration import (
    WIDTH,
    Calibration,
    JudgedRow,
    JudgesCompared,
    LabelledRow,
    calibrate,
    compare_judges,
)
from engine.analysis.calibration_words import comparison_lines
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.display import plural
from engine.errors import InputError, Problem
from engine.jury import HUMAN, Jury, People, newest_votes, what_counts
from engine.pipeline.labelling.labels import (
    JudgedConversation,
    Labels,
    judged_conversations,
    labels_of,
)
from engine.scripted import is_script
from engine.statistics.clusters import SharedTranscripts
from engine.store.reader import Reader
from engine.store.tables import Verdict

COUNTING: Final = "what counts"
"""Stands for the judges of the configuration together."""


_COMPARED: Final = 4
"""The most judges that are compared by default; `calibrate --compare` takes any two."""


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What labels say about each judge of a benchmark."""

    calibrations: Sequence[Calibration]
    notes: Sequence[str]
    """Who labelled, what was left out, and whether people's verdicts count."""


@dataclass(frozen=True, slots=True)
class LabelledJudges:
    """A benchmark's judges and the labels that people gave to a sample of its conversations."""

    benchmark: str
    title: str
    judged: Sequence[JudgedConversation]
    labels: Labels
    jury: Jury

    @classmethod
    def of(cls, definition: Definition, config: Config, reader: Reader) -> LabelledJudges | None:
        """Read them from the store; None where there are no labels."""
        peoples = reader.peoples_verdicts(definition.name)
        if not peoples:
            return None
        judged = judged_conversations(definition, config, reader)
        labels = labels_of(judged, peoples)
        if not (labels.people or labels.replaced):
            return None
        return cls(definition.name, definition.title, judged, labels, config.jury)

    @property
    def people(self) -> People:
        return self.jury.people

    @property
    def judges(self) -> list[str]:
        """What counts; with several judges in the jury, each of them too."""
        own = sorted(
            {
                verdict.judge
                for conversation in self.judged
                for verdict in conversation.verdicts
                if verdict.source != HUMAN and self.jury.holds(verdict)
            }
        )
        return own if len(own) == 1 else [COUNTING, *own]

    @property
    def scripted(self) -> bool:
        """Whether one of these judges is a script."""
        return any(map(is_script, self.judges))

    def calibration(self, judge: str, width: float = WIDTH) -> Calibration:
        """Compare one judge with the labels. Raises `InputError` if it has judged nothing here."""
        rows = self._rows(judge)
        return calibrate(list(rows.values()), self._labelled(rows), judge, width)

    def compared(self, left: str, right: str) -> list[JudgesCompared]:
        """Compare two judges on the same labels. Raises `InputError` as `calibration` does."""
        one, other = (self._labelled(self._rows(name)) for name in (left, right))
        return compare_judges(self.benchmark, one, other)

    def report(self) -> CalibrationReport:
        """Calibrate all `judges`."""
        calibrations = [self.calibration(judge) for judge in self.judges]
        return CalibrationReport(calibrations, [*self._comparisons(), *self.notes()])

    def _comparisons(self) -> Iterator[str]:
        """Compare the first judge of the configuration with up to `_COMPARED` others."""
        first, *_ = [name for name in self.judges if name != COUNTING] or [COUNTING]
        for name in sorted(self._known_judges - {first})[:_COMPARED]:
            for line in comparison_lines(first, name, self.compared(first, name)):
                yield f"{first} and {name} on the same labels, {line}"

    def notes(self) -> Iterator[str]:
        """Say who labelled, what was left out, and whether people's verdicts count."""
        labels = self.labels
        if labels.people:
            by = ", ".join(f"{name} {number}" for name, number in labels.people.items())
            yield f"labelled by {by}"
        if labels.cannot_tell:
            yield f"{plural(labels.cannot_tell, 'conversation')} left out: people cannot tell"
        if labels.disputed:
            disputed = plural(len(labels.disputed), "conversation")
            yield f"{disputed} left out: people disagree, and `crosswind label --decide` settles it"
        if labels.replaced:
            replaced = plural(labels.replaced, "conversation")
            yield f"{replaced} left out: played again, no longer asked for, or unscored"
        if labels.earlier_definition:
            number = plural(labels.earlier_definition, "conversation")
            yield f"{number} labelled under an earlier definition, and held against it all the same"
        yield self.people.rule

    @property
    def _known_judges(self) -> set[str]:
        """All models that have judged any of these conversations."""
        return {
            verdict.judge
            for conversation in self.judged
            for verdict in conversation.verdicts
            if verdict.source != HUMAN
        }

    def _rows(self, judge: str) -> dict[tuple[int, str], JudgedRow]:
        known = self._known_judges
        if judge not in known | {COUNTING}:
            shown = judge if len(judge) <= 40 else f"{judge[:39]}…"
            named = ", ".join(sorted(known)) or "nobody"
            what = f"{shown} has judged none of these conversations"
            raise InputError(Problem(what, hint=f"they were judged by {named}"))
        shared = SharedTranscripts.of(
            (conversation.base, conversation.transcript) for conversation in self.judged
        )
        return {
            conversation.item: self._row(
                conversation, judge, shared.place(conversation.metric.id, conversation.base)
            )
            for conversation in self.judged
        }

    def _row(self, judged: JudgedConversation, judge: str, place: tuple[str, str]) -> JudgedRow:
        of_judge = [
            row for row in judged.verdicts if row.source != HUMAN and judge in {row.judge, COUNTING}
        ]
        return JudgedRow(
            str(judged.key),
            judged.metric.id,
            judged.key.target_id,
            place,
            judged.metric.track,
            judged.present,
            judged.present if judge == COUNTING else self._majority_vote(judged, of_judge, judge),
            first_turn(newest_votes(of_judge)),
        )

    def _majority_vote(
        self, judged: JudgedConversation, verdicts: Sequence[Verdict], judge: str
    ) -> bool | None:
        """Whether this judge finds the behaviour present, by the majority of its passes."""
        passed = what_counts(newest_votes(verdicts), replace(self.jury, judges=(judge,)))
        return None if passed is None else passed is judged.metric.track.passes(present=True)

    def _labelled(self, rows: Mapping[tuple[int, str], JudgedRow]) -> list[LabelledRow]:
        return [
            LabelledRow(
                rows[label.conversation.item],
                label.present,
                label.inclusion,
                first_turn(row for row in label.conversation.verdicts if row.source == HUMAN),
            )
            for label in self.labels.settled
        ]


def first_turn(verdicts: Iterable[Verdict]) -> int | None:
    """The first turn that any of the verdicts quotes or marks; None where none does."""
    turns = [
        quote.turn for verdict in verdicts for quote in verdict.quotes if quote.turn is not None
    ]
    return min(turns, default=None)
