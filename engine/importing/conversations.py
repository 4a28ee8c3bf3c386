"""Imports the conversations of one benchmark: what of each is new in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import intern
from typing import Final

from engine.benchmark import ConversationKey, Scenario, Stage, State, name_fault
from engine.checks import UserAudit, UserAuditMode
from engine.importing import fields
from engine.importing.context import ImportContext, RowLocation
from engine.importing.fields import OURS, ForeignObject, UnfitError, secrets_in, without_texts
from engine.importing.histories import RowHistories, RowHistory
from engine.importing.known_rows import KnownTake, is_same
from engine.importing.report import UnknownTarget
from engine.importing.scenarios import ScenarioImport
from engine.importing.takes import (
    NO_CONTENT,
    NO_TYPE,
    TakeReader,
    check_identity,
    digests_of,
    identity,
    in_order,
    numbered,
    read_verdicts,
)
from engine.importing.work import WorkImport
from engine.store.inserts import BulkRow, WholeConversation, WholeTake
from engine.store.tables import AttemptRow, CheckRow, StateRow, StoredTake, Verdict

_AUDITS: Final = 2_000
"""The most audits that are cached; each takes a few kilobytes."""
ScoreKey = tuple[str, str, int]
"""The scenario's id, the target's name in the files, and the sample."""


_SAID: Final = (
    *("metric_id", "present", "passed", "score", "justification"),
    *("judge", "evaluator_model", "evaluator", OURS),
)
"""The fields of a verdict; only these are kept while it waits, as there may be very many."""


@dataclass(frozen=True, slots=True)
class PendingScore:
    """A row of `scores.json` that waits for its conversation, and where it is."""

    row: ForeignObject
    location: RowLocation


@dataclass(slots=True)
class PendingScores:
    """The scores of one benchmark that wait for their conversations."""

    context: ImportContext
    _waiting: dict[ScoreKey, tuple[PendingScore, ...]] = field(default_factory=dict)

    def read(self, path: Path, folder: str) -> None:
        """Keep every row of a `scores.json`; `folder` is the target of rows that name none."""
        file, rows = self.context.rows(path)
        for row in rows:
            self.keep(RowLocation(file, row.index, row.line), row.value, folder)

    def keep(self, location: RowLocation, value: object, folder: str | None) -> None:
        """Keep one row until its conversation comes; report one that cannot be imported."""
        location.file.rows += 1
        try:
            row = fields.as_object(value)
            # interned: many rows have the same id
            key = (
                intern(fields.row_scenario_id(row)),
                intern(fields.target_name(row, folder)),
                fields.sample(row),
            )
        except UnfitError as error:
            location.drop(error)
            return
        values = {name: row[name] for name in _SAID if name in row}
        score = PendingScore(values, location)
        self._waiting[key] = (*self._waiting.get(key, ()), score)

    def wait_for(self, key: ScoreKey) -> bool:
        """Whether any score waits for this conversation."""
        return key in self._waiting

    def of(self, key: ScoreKey) -> Sequence[PendingScore]:
        """Return the scores of a conversation, and forget them."""
        return self._waiting.pop(key, ())

    def unmatched(self) -> Iterator[tuple[ScoreKey, Sequence[PendingScore]]]:
        """Yield the scores whose conversation did not come."""
        yield from self._waiting.items()

    def judged(self, take: WholeTake, scores: Sequence[PendingScore], metric_id: str) -> WholeTake:
        """Return the take with the verdicts in these rows."""
        if take.finished:
            return replace(take, verdicts=tuple(self.verdicts(scores, metric_id)))
        what = "the conversation was not played to its end, so no verdict on it is kept"
        for score in scores:
            score.location.drop(UnfitError("", what))
        return take

    def verdicts(self, scores: Sequence[PendingScore], metric_id: str) -> list[Verdict]:
        """Read the verdicts; those that do not count come first, so that the newest one counts."""
        off: list[Verdict] = []
        on: list[Verdict] = []
        for score in scores:
            try:
                verdicts, is_off_target = read_verdicts(score.row, metric_id, self.context.rules)
            except UnfitError as error:
                score.location.drop(error)
                continue
            score.location.file.taken += 1
            (off if is_off_target else on).extend(verdicts)
        if off:
            note = "verdicts about another metric, kept and not counted"
            self.context.report.notes[note] += len(off)
        return [*off, *on]


@dataclass(slots=True)
class Conversations:
    """Imports the conversations of one benchmark."""

    context: ImportContext
    work: WorkImport
    scenario_import: ScenarioImport
    scores: PendingScores
    targets: dict[str, UnknownTarget] = field(default_factory=dict)
    """Every target in the files, by our name."""
    _seen: dict[ConversationKey, tuple[str, int, int]] = field(default_factory=dict)
    """File and row in which each conversation was found first, and a hash of its text."""
    _sound: set[str] = field(default_factory=set)
    """Ids that were found valid: few scenarios have many conversations."""
    _audits: dict[str, tuple[Scenario, UserAudit]] = field(default_factory=dict)

    def rows(
        self,
        location: RowLocation,
        value: object,
        folder: str | None,
        sample: int = 0,
        histories: RowHistories | None = None,
    ) -> Iterator[BulkRow]:
        """Yield what is new in a row; report one that cannot be imported."""
        location.file.rows += 1
        try:
            row = fields.as_object(value)
            key, theirs = self.key(row, folder, sample)
            history = self._history(key, histories)
            takes = history.dated(self._takes(row, key, theirs))
            if self._is_first(key, takes, location):
                yield from self._import(row, key, takes, location, history)
        except UnfitError as error:
            location.drop(error)

    def unfinished(self, histories: RowHistories) -> Iterator[BulkRow]:
        """Yield what is new in conversations that our own files list beside the finished ones."""
        for location, row in histories.of_unfinished():
            try:
                key, theirs = self.key(fields.as_object(row), histories.target, 0)
                metric_id = self.scenario_import.metric_of(row, key.scenario_id)
                self._model(row, key.target_id, theirs[1])
                listed = self._reader(key, metric_id).listed(row["apart"])
                history = self._history(key, histories)
                takes = history.dated(in_order(listed))
                if self._is_first(key, takes, location):
                    yield from self._import(row, key, takes, location, history)
            except UnfitError as error:
                location.drop(error)

    def _history(self, key: ConversationKey, histories: RowHistories | None) -> RowHistory:
        unit = str(key)
        if histories is None:
            return RowHistory(self.context.name, key.target_id, unit, {})
        return histories.take(unit)

    def key(
        self, row: ForeignObject, folder: str | None, sample: int
    ) -> tuple[ConversationKey, ScoreKey]:
        """Return the keys of a row's conversation and of its scores. Raises `UnfitError`."""
        name = fields.row_scenario_id(row)
        target = fields.target_name(row, folder)
        number = fields.sample(row, sample)
        if name not in self._sound and (fault := name_fault(name)):
            raise UnfitError("id", f"{name[:100]!r} cannot be an id: {fault}")
        self._sound.add(name)
        ours = self.context.names.ours(target)
        if ours is None:
            what = f"{target[:100]!r} cannot be a target's name"
            hint = "it looks like a path; a name has letters, digits, '.', '_' and '-'"
            raise UnfitError("target_model", what, hint)
        return ConversationKey(intern(name), ours, number), (name, target, number)

    def has(self, key: ConversationKey) -> bool:
        """Whether the files have had a row of it so far."""
        return key in self._seen

    @property
    def count(self) -> int:
        """The number of conversations in the files so far."""
        return len(self._seen)

    @property
    def samples(self) -> int:
        """The most samples of a scenario in the files so far."""
        return max((key.sample + 1 for key in self._seen), default=0)

    def _model(self, row: ForeignObject, ours: str, theirs: str) -> str:
        if ours not in self.targets:
            target = fields.target_model(row)
            model = target.model or self.context.models.get(theirs) or theirs
            self.targets[ours] = UnknownTarget(ours, model, target.source, target.base_url)
        return self.targets[ours].model

    def _reader(self, key: ConversationKey, metric_id: str) -> TakeReader:
        return TakeReader(self.context.name, key, metric_id, self.context.rules)

    def _takes(self, row: ForeignObject, key: ConversationKey, theirs: ScoreKey) -> list[WholeTake]:
        notes = self.context.report.notes
        if secrets := secrets_in(row):
            notes["rows with a key or headers, which were dropped"] += 1
            row = without_texts(row, secrets)
        metric_id = self.scenario_import.metric_of(row, key.scenario_id)
        read = self._reader(key, metric_id)
        counting = read.counting(row, self._model(row, key.target_id, theirs[1]))
        takes = [counting, *read.others(row)]
        finishes = [message.finish for take in takes for message in take.messages]
        if empty := finishes.count(NO_CONTENT):
            notes["messages whose content is null"] += empty
        takes[0] = self.scores.judged(counting, self.scores.of(theirs), metric_id)
        return in_order(takes)

    def _is_first(
        self, key: ConversationKey, takes: list[WholeTake], location: RowLocation
    ) -> bool:
        """Whether this conversation has not come before. Raises `UnfitError` if it has, with
        another text."""
        # a hash instead of the texts of all conversations; it is compared within this process only
        texts_digest = hash(tuple(digest for take in takes for digest in digests_of(take.messages)))
        if key not in self._seen:
            self._seen[key] = (intern(location.file.path.name), location.index, texts_digest)
            return True
        file, index, said_first = self._seen[key]
        if texts_digest != said_first:
            what = f"{file}[{index}] is the same conversation with other words, and was taken"
            raise UnfitError("id", f"{key}: {what}")
        location.file.known += 1
        note = "conversations that are there twice, word for word"
        self.context.report.notes[note] += 1
        return False

    def _import(
        self,
        row: ForeignObject,
        key: ConversationKey,
        takes: list[WholeTake],
        location: RowLocation,
        history: RowHistory,
    ) -> Iterator[BulkRow]:
        stored = self.context.known.takes(key)
        states = list(self._states(key, takes, history))
        if all(self._stored_take(stored, take) for take in takes):
            added = list(self._additions(stored, takes))
            judged = [row for row in added if isinstance(row, Verdict)]
            states += self.work.judged_since(key, judged)
            new = [*added, *self._lost_calls(history), *states]
            location.file.taken += bool(new)
            location.file.known += not new
            yield from new
            return
        before, after = self.scenario_import.of_conversation(row, key.scenario_id, location)
        location.file.taken += 1
        if not (isinstance(row.get(OURS), dict) or "apart" in row):
            # our own files say what was audited
            takes = self._audited(takes, self.scenario_import.played(before, key.scenario_id))
        yield from before
        if stored:
            yield from self._new_takes(stored, takes)
            yield from states
        else:
            if not takes[-1].finished:
                note = "conversations that were not played to their end"
                self.context.report.notes[note] += 1
            calls = self._calls(row, key, takes, history)
            yield WholeConversation(fresh=True, takes=takes, attempts=calls, states=states)
        yield from after

    def _audited(self, takes: list[WholeTake], scenario: Scenario | None) -> list[WholeTake]:
        """Add the faults of the user model by the rules, if the configuration asks for that."""
        if scenario is None or self.context.user_audit is UserAuditMode.OFF:
            return takes
        audit = self._audit_of(scenario)
        audited = [self._audited_take(take, audit) if take.finished else take for take in takes]
        note = "conversations in which the user model did not do its part, by the rules"
        if invalid := sum(take.end is not None and bool(take.end.user_faults) for take in audited):
            self.context.report.notes[note] += invalid
        return audited

    def _audit_of(self, scenario: Scenario) -> UserAudit:
        """Return the cached audit of a scenario, which many targets play."""
        made, audit = self._audits.get(scenario.id, (None, None))
        if audit is None or made is not scenario:
            audit = UserAudit(scenario)
            if len(self._audits) >= _AUDITS:
                self._audits.clear()
            self._audits[scenario.id] = scenario, audit
        return audit

    def _audited_take(self, take: WholeTake, audit: UserAudit) -> WholeTake:
        # the user's messages are every second one, beginning with the first
        messages = [(message.turn, message.text) for message in take.messages[::2]]
        if take.end is None:
            return take
        reason = take.end.stop_reason
        faults = audit.faults(messages, turns=self.context.turns, stop_reason=reason)
        return replace(take, end=replace(take.end, user_faults=faults))

    def _new_takes(self, stored: list[KnownTake], takes: list[WholeTake]) -> Iterator[BulkRow]:
        """Yield takes that the store does not have, numbered after those that it has."""
        # not with their own numbers, which the store's takes may have
        number = max(take.number for take, _ in stored) + 1
        for take in takes:
            if self._stored_take(stored, take) is None:
                yield WholeConversation(fresh=False, takes=[numbered(take, number)])
                number += 1
        yield from self._additions(stored, takes)

    def _stored_take(self, stored: list[KnownTake], take: WholeTake) -> KnownTake | None:
        """Return the stored take with the same text, if possible the one with the same number."""
        digests = digests_of(take.messages) if stored else []
        same = [known for known in stored if is_same(known, digests, finished=take.finished)]
        ours = (known for known in same if known[0].number == take.begun.number)
        return next(ours, next(iter(same), None))

    def _additions(self, stored: list[KnownTake], takes: list[WholeTake]) -> Iterator[BulkRow]:
        """Yield what is new for takes that the store has: the messages after its last one, and
        verdicts and checks."""
        for take in takes:
            same = self._stored_take(stored, take)
            if same is None or not take.finished or take.end is None:
                continue
            known, digests = same
            if not known.finished:
                for message in take.messages[len(digests) :]:
                    yield replace(message, take=known.seq)
                yield replace(take.end, take=known.seq)
            yield from self.verdicts_on(known, take.verdicts)
            yield from self._checks_on(known, take.checks)

    def _checks_on(self, take: StoredTake, checks: Iterable[CheckRow]) -> Iterator[CheckRow]:
        """Yield the checks that the store does not have."""
        known = self.context.known.checks(take)
        for check in checks:
            if check_identity(check) not in known:
                yield replace(check, take=take.seq)

    def verdicts_on(self, take: StoredTake, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        """Yield the verdicts that the store does not have."""
        known = self.context.known.verdicts(take)
        for verdict in verdicts:
            if identity(verdict) not in known:
                yield replace(verdict, take=take.seq)

    def _calls(
        self, row: ForeignObject, key: ConversationKey, takes: list[WholeTake], history: RowHistory
    ) -> list[AttemptRow]:
        """Return the calls if they are listed, else their sum."""
        if history.calls is not None:
            # the store may still have the calls of a conversation that it lost
            return self._lost_calls(history)
        usage = fields.usage(row)
        if usage is None:
            return []
        model = takes[-1].begun.model
        return [self.work.attempt(Stage.SIMULATE, str(key), key.target_id, model, usage)]

    def _lost_calls(self, history: RowHistory) -> list[AttemptRow]:
        """Return the calls of a row of work for which the store has none."""
        known = self.context.known
        calls = history.calls or ()
        return self.work.listed_calls(
            call for call in calls if not known.has_call(call.stage, call.unit)
        )

    def _states(
        self, key: ConversationKey, takes: list[WholeTake], history: RowHistory
    ) -> Iterator[StateRow]:
        if history.row:
            judged = self.context.repairs or any(take.verdicts for take in takes)
            for row in history.work or ():
                # a file of verdicts may be damaged: then nothing is judged, and a run does it again
                if judged or (row.stage, row.state) != (Stage.EVALUATE, State.DONE):
                    yield from self.work.unknown_states(row)
            return
        finished = [take for take in takes if take.finished]
        if not finished:
            return
        unit, target = str(key), key.target_id
        yield from self.work.state(Stage.SIMULATE, unit, target)
        verdicts = finished[-1].verdicts
        # without a metric's type it is the definition that is incomplete, not the judging
        if any(verdict.passed is not None or verdict.unscored == NO_TYPE for verdict in verdicts):
            yield from self.work.state(Stage.EVALUATE, unit, target)
        elif verdicts:
            failed = verdicts[-1].unscored or "no usable verdict"
            yield from self.work.state(Stage.EVALUATE, unit, target, failed=failed)

    def judged_alone(self) -> Iterator[BulkRow]:
        """Yield verdicts on conversations that the store has and the files have not."""
        for (scenario, theirs, sample), scores in self.scores.unmatched():
            ours = self.context.names.ours(theirs)
            key = None if ours is None else ConversationKey(scenario, ours, sample)
            finished = [] if key is None else self._finished_takes(key)
            if not finished:
                what = f"{scenario} of {theirs}, sample {sample}: no file has this conversation"
                hint = "a verdict is kept with its conversation: import that too"
                for score in scores:
                    score.location.drop(UnfitError("", what, hint))
                continue
            metric_id = self.scenario_import.metric_of(scores[0].row, scenario)
            verdicts = self.scores.verdicts(scores, metric_id)
            added = list(self.verdicts_on(finished[-1], verdicts))
            yield from added
            if key is not None:
                yield from self.work.judged_since(key, added)

    def _finished_takes(self, key: ConversationKey) -> list[StoredTake]:
        return [take for take, _ in self.context.known.takes(key) if take.finished]
