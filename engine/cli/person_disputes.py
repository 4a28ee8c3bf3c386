"""What people who labelled the same conversation disagree on, for a person who decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cli.label_writing import write_labels
from engine.cli.person_sample import definition_of, person_named
from engine.cli.session import Session
from engine.config.benchmark_file import Definition
from engine.pipeline.label_requests import Decision, LabelRequest
from engine.pipeline.labels import Dispute, disputes, judged_conversations


@dataclass(frozen=True, slots=True)
class PersonDisputes:
    """What it does takes a while, and may be done on any thread."""

    session: Session
    definition: Definition
    person: str
    """Who decides."""
    found: Sequence[Dispute]
    """As it was when this was opened."""

    @classmethod
    def open(cls, session: Session, benchmark: str, by: str | None) -> PersonDisputes:
        """Raises `CrosswindError`."""
        definition = definition_of(session, benchmark)
        with session.reader() as reader:
            judged = judged_conversations(definition, session.config, reader)
            found = disputes(judged, reader, definition)
        return cls(session, definition, person_named(by), found)

    def decide(self, dispute: Dispute, *, present: bool, reason: str) -> None:
        """Raises `CrosswindError`."""
        self._ask(Decision(str(dispute.of.key), present, reason, self.person))

    def take_back(self, dispute: Dispute) -> None:
        """What this person decided of it. Raises `CrosswindError`."""
        self._ask(Decision(str(dispute.of.key), None, "", self.person))

    def _ask(self, decision: Decision) -> None:
        write_labels(self.session, LabelRequest(self.definition.name, decision=decision))
