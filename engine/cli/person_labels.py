"""The sample that one person labels, and the conversations on which several people disagree."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.cli.engine_requests import write_labels
from engine.cli.session import Session
from engine.config.benchmark_file import Definition, load_definition
from engine.display import one_line
from engine.errors import InputError, Problem
from engine.people import (
    LONGEST_PERSON,
    Decision,
    LabelRequest,
    NumberedLabel,
    SampleDraw,
)
from engine.pipeline.labelling.labels import (
    MOST_LABELS,
    BlindItem,
    Dispute,
    LabellingProgress,
    blind_item,
    check_person,
    disputes,
    judged_conversations,
    labelling,
    labels_of,
)

PERSON: Final = "CROSSWIND_PERSON"
"""The environment variable with the person's name, in the commands and in the app."""


@dataclass(frozen=True, slots=True)
class PersonSample:
    """A person's sample. Its methods block and may be called on any thread."""

    session: Session
    definition: Definition
    labelling: LabellingProgress
    """As it was when this was opened."""

    @classmethod
    def open(
        cls, session: Session, benchmark: str, by: str | None, size: int, seed: str, *, new: bool
    ) -> PersonSample:
        """The sample that this person is labelling. A new one is drawn where there is none, or,
        with `new`, where the last is finished. Raises `CrosswindError`."""
        if not 1 <= size <= MOST_LABELS:
            raise InputError(Problem(f"--sample {size}: expected 1 to {MOST_LABELS}"))
        definition = definition_of(session, benchmark)
        session.require_store()
        person, account = person_named(by), this_account()
        with session.reader() as reader:
            judged = judged_conversations(definition, session.config, reader)
            check_person(reader.label_samples(definition.name), person, account)
            own = labelling(reader, definition.name, person, judged)
        if own is None or (new and own.is_done):
            draw = SampleDraw(size, seed, person, account)
            write_labels(session, LabelRequest(definition.name, draw=draw))
            with session.reader() as reader:
                own = labelling(reader, definition.name, person, judged)
        assert own is not None  # noqa: S101  (it was stored above)
        return cls(session, definition, own)

    def progress(self) -> LabellingProgress:
        """The progress as it is stored now. Raises `StoreError`."""
        name, person = self.definition.name, self.labelling.sample.person
        with self.session.reader() as reader:
            judged = judged_conversations(self.definition, self.session.config, reader)
            return labelling(reader, name, person, judged) or self.labelling

    def item(self, number: int) -> BlindItem:
        """What the person sees of this number. Raises `InputError` and `StoreError`."""
        with self.session.reader() as reader:
            return blind_item(self.labelling, number, reader, self.definition)

    def is_replaced(self, number: int) -> bool:
        """Whether it was played again since the draw. Raises `InputError` and `StoreError`."""
        take = self.labelling.item(number).take
        with self.session.reader() as reader:
            return not reader.counting_among([take])

    def store(self, labels: Sequence[NumberedLabel]) -> None:
        """Store all labels or none; call `write_files` afterwards. Raises `CrosswindError`."""
        request = LabelRequest(
            self.definition.name, sample=self.labelling.sample.seq, labels=tuple(labels)
        )
        write_labels(self.session, request, with_files=False)

    def write_files(self) -> None:
        """Bring the benchmark's files up to date, which takes longer the more there are. Raises
        `CrosswindError`."""
        sample = self.labelling.sample.seq
        write_labels(self.session, LabelRequest(self.definition.name, sample=sample))


@dataclass(frozen=True, slots=True)
class PersonDisputes:
    """The disputes of a benchmark. Its methods block and may be called on any thread."""

    session: Session
    definition: Definition
    person: str
    """Who decides."""
    disputes: Sequence[Dispute]
    """As it was when this was opened."""

    @classmethod
    def open(cls, session: Session, benchmark: str, by: str | None) -> PersonDisputes:
        """The disputes as they are stored now. Raises `CrosswindError`."""
        definition = definition_of(session, benchmark)
        with session.reader() as reader:
            judged = judged_conversations(definition, session.config, reader)
            disputed = disputes(judged, reader, definition)
        return cls(session, definition, person_named(by), disputed)

    def decide(self, dispute: Dispute, *, present: bool, reason: str) -> None:
        """Store this person's decision. Raises `CrosswindError`."""
        self._ask(Decision(str(dispute.conversation.key), present, reason, self.person))

    def take_back(self, dispute: Dispute) -> None:
        """Take back this person's decision. Raises `CrosswindError`."""
        self._ask(Decision(str(dispute.conversation.key), None, "", self.person))

    def _ask(self, decision: Decision) -> None:
        write_labels(self.session, LabelRequest(self.definition.name, decision=decision))


class WaitingLabels(NamedTuple):
    """What waits for a person in a benchmark, beside reviews."""

    to_label: int = 0
    """Conversations of the person's newest sample without an answer."""
    sampled: int = 0
    """The conversations of that sample."""
    disputed: int = 0
    """Conversations that people have labelled differently, and nobody has decided."""

    @classmethod
    def of(cls, session: Session, benchmark: str, by: str | None) -> WaitingLabels:
        """As it is stored now; draws no sample. Raises `CrosswindError`."""
        definition = definition_of(session, benchmark)
        with session.reader_or_empty() as reader:
            labels = reader.peoples_verdicts(definition.name)
            if not labels and not reader.label_samples(definition.name):
                return cls()  # spares reading what was judged
            judged = judged_conversations(definition, session.config, reader)
            own = labelling(reader, definition.name, person_named(by), judged)
            disputed = len(labels_of(judged, labels).disputed)
        if own is None:
            return cls(disputed=disputed)
        return cls(len(own.open), len(own.sample.items), disputed)


def definition_of(session: Session, name: str) -> Definition:
    """The definition of a benchmark. Raises `InputError`."""
    session.workspace.require_benchmarks([name])
    return load_definition(session.workspace.definition_path(name))


def person_named(by: str | None) -> str:
    """Who labels or reviews: `by`, else `CROSSWIND_PERSON`, else the name of their account. Raises
    `InputError`."""
    stated = by if by is not None else os.environ.get(PERSON) or _user()
    name = one_line(stated).strip()
    if not 0 < len(name) <= LONGEST_PERSON:
        where = "--by" if by is not None else PERSON
        raise InputError(Problem(f"{where}: expected a name of 1 to {LONGEST_PERSON} characters"))
    return name


def this_account() -> str:
    """The account and machine, as `user@host`."""
    return f"{_user()}@{socket.gethostname()}"


def _user() -> str:
    """The name of the account, or the number of a user who has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        return f"uid{os.getuid()}"
