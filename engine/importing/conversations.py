"""The conversations of one benchmark's import: what of each is new in the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from engine.benchmark import ConversationKey, Stage, name_fault
from engine.importing import fields
from engine.importing.fields import JsonObject, UnfitError
from engine.importing.known import KnownTake
from engine.importing.report import UnknownTarget
from engine.importing.scores import ScoreKey, Scores
from engine.importing.secrets import secrets_in
from engine.importing.set_ups import SetUps
from engine.importing.setting import Place, Setting
from engine.importing.takes import FileTake, takes_of
from engine.importing.verdicts import identity
from engine.importing.work import Work
from engine.store.bulk import BulkRow, WholeConversation
from engine.store.rows import AttemptRow, NewVerdict, StateRow, TakeEndRow


@dataclass(slots=True)
class Conversations:
    """Of one benchmark's import."""

    setting: Setting
    work: Work
    set_ups: SetUps
    scores: Scores
    targets: dict[str, UnknownTarget] = field(default_factory=dict)
    """Every target that was met, by our name."""
    _seen: dict[ConversationKey, tuple[str, int]] = field(default_factory=dict)
    """Where each was found first, and what was said in it."""

    def rows(
        self, place: Place, value: object, folder: str | None, sample: int = 0
    ) -> Iterator[BulkRow]:
        """What is new in one row; a row that cannot be taken is told."""
        place.file.rows += 1
        try:
            row = fields.as_object(value)
            key, theirs = self.key(row, folder, sample)
            takes = self._takes(row, key, theirs, place)
            if self._is_first(key, takes, place):
                yield from self._new(row, key, takes, place)
        except UnfitError as error:
            place.drop(error)

    def key(
        self, row: JsonObject, folder: str | None, sample: int
    ) -> tuple[ConversationKey, ScoreKey]:
        """Raises `UnfitError`."""
        name = fields.scenario_id(row)
        target = fields.target_name(row, folder)
        number = fields.sample(row, sample)
        if fault := name_fault(name):
            raise UnfitError("id", f"{name[:100]!r} cannot be an id: {fault}")
        ours = self.setting.names.ours(target)
        if ours is None:
            what = f"{target[:100]!r} cannot be a target's name"
            hint = "a name has letters, digits, '.', '_' and '-', and no other target has it"
            raise UnfitError("target_model", what, hint)
        return ConversationKey(name, ours, number), (name, target, number)

    def has(self, key: ConversationKey) -> bool:
        """Whether a row of it was met."""
        return key in self._seen

    def _model(self, row: JsonObject, ours: str, theirs: str) -> str:
        if ours not in self.targets:
            told = fields.target_model(row)
            model = told.model or self.setting.models.get(theirs) or theirs
            self.targets[ours] = UnknownTarget(ours, model, told.source, told.base_url)
        return self.targets[ours].model

    def _takes(
        self, row: JsonObject, key: ConversationKey, theirs: ScoreKey, place: Place
    ) -> list[FileTake]:
        notes = self.setting.report.notes
        secrets = frozenset(secrets_in(row))
        if secrets:
            notes["rows with a key or headers, which were dropped"] += 1
        metric_id = self.set_ups.metric_of(row, key.scenario_id)
        takes = takes_of(
            row,
            key,
            metric_id=metric_id,
            tracks=self.setting.tracks,
            model=self._model(row, key.target_id, theirs[1]),
            secrets=secrets,
        )
        if empty := sum(take.transcript.empty_contents for take in takes):
            notes["messages whose content is null"] += empty
        scores = self.scores.of(theirs)
        return [
            self.scores.judged(take, scores, metric_id) if take.counts else take for take in takes
        ]

    def _is_first(self, key: ConversationKey, takes: list[FileTake], place: Place) -> bool:
        """A conversation that is there twice is taken once. Raises `UnfitError` where the two
        are not the same."""
        here = f"{place.file.path.name}[{place.index}]"
        said = hash(tuple(one.text for take in takes for one in take.transcript.messages))
        if key not in self._seen:
            self._seen[key] = (here, said)
            return True
        first, said_first = self._seen[key]
        if said != said_first:
            what = f"{first} is the same conversation with other words, and was taken"
            raise UnfitError("id", f"{key}: {what}")
        place.file.known += 1
        note = "conversations that are there twice, word for word"
        self.setting.report.notes[note] += 1
        return False

    def _new(
        self, row: JsonObject, key: ConversationKey, takes: list[FileTake], place: Place
    ) -> Iterator[BulkRow]:
        there = self.setting.known.takes(key)
        if all(self._same(there, take) for take in takes):
            new = [*self._added(there, takes), *self._states(key, takes)]
            place.file.taken += bool(new)
            place.file.known += not new
            yield from new
            return
        before, after = self.set_ups.of_conversation(row, key.scenario_id, place)
        place.file.taken += 1
        yield from before
        if there:
            yield from self._beside(key, there, takes)
            yield from self._states(key, takes)
        else:
            yield self._whole(row, key, takes)
        yield from after

    def _whole(
        self, row: JsonObject, key: ConversationKey, takes: list[FileTake]
    ) -> WholeConversation:
        name, jury = self.setting.name, self.setting.jury
        if not takes[-1].finished:
            note = "conversations that were not played to their end"
            self.setting.report.notes[note] += 1
        return WholeConversation(
            fresh=True,
            takes=[take.whole(name, key, take.number, jury=jury) for take in takes],
            attempts=self._usage(row, key, takes),
            states=list(self._states(key, takes)),
        )

    def _beside(
        self, key: ConversationKey, there: list[KnownTake], takes: list[FileTake]
    ) -> Iterator[BulkRow]:
        """Takes that the store does not have, behind those that it has."""
        number = max(take.number for take in there) + 1
        for take in takes:
            if self._same(there, take) is None:
                whole = take.whole(self.setting.name, key, number, jury=self.setting.jury)
                number += 1
                yield WholeConversation(fresh=False, takes=[whole])
        yield from self._added(there, takes)

    def _same(self, there: list[KnownTake], take: FileTake) -> KnownTake | None:
        digests = take.digests if there else []
        return next((one for one in there if one.is_of(digests, finished=take.finished)), None)

    def _added(self, there: list[KnownTake], takes: list[FileTake]) -> Iterator[BulkRow]:
        """What is new of takes that the store has: what was said after the place at which its own
        was cut off, and verdicts."""
        for take in takes:
            same = self._same(there, take)
            if same is None:
                continue
            yield from self._rest(same, take)
            if take.finished:
                yield from self.verdicts_on(same, take.verdicts)

    def _rest(self, there: KnownTake, take: FileTake) -> Iterator[BulkRow]:
        if there.finished or not take.finished or take.stop_reason is None:
            return
        for message in take.transcript.messages[len(there.digests) :]:
            yield replace(message, take=there.seq)
        yield TakeEndRow(take=there.seq, stop_reason=take.stop_reason, detail=take.detail)

    def verdicts_on(
        self, take: KnownTake, verdicts: list[NewVerdict] | tuple[NewVerdict, ...]
    ) -> Iterator[NewVerdict]:
        """Those that the store does not have."""
        known = self.setting.known.verdicts(take)
        for verdict in verdicts:
            if identity(verdict) not in known:
                yield replace(verdict, take=take.seq, jury=self.setting.jury)

    def _usage(
        self, row: JsonObject, key: ConversationKey, takes: list[FileTake]
    ) -> list[AttemptRow]:
        usage = fields.usage(row)
        if usage is None:
            return []
        model = takes[-1].model
        return [self.work.attempt(Stage.SIMULATE, str(key), key.target_id, model, usage)]

    def _states(self, key: ConversationKey, takes: list[FileTake]) -> Iterator[StateRow]:
        finished = [take for take in takes if take.finished]
        if not finished:
            return
        unit, target = str(key), key.target_id
        yield from self.work.state(Stage.SIMULATE, unit, target)
        verdicts = finished[-1].verdicts
        if any(verdict.passed is not None for verdict in verdicts):
            yield from self.work.state(Stage.EVALUATE, unit, target)
        elif verdicts:
            failed = verdicts[-1].unscored or "no usable verdict"
            yield from self.work.state(Stage.EVALUATE, unit, target, failed=failed)

    def judged_alone(self) -> Iterator[BulkRow]:
        """Verdicts on conversations that the store has and the files do not."""
        for (scenario, theirs, sample), scores in self.scores.left():
            ours = self.setting.names.ours(theirs)
            key = None if ours is None else ConversationKey(scenario, ours, sample)
            finished = [] if key is None else self._finished(key)
            if not finished:
                what = f"{scenario} of {theirs}, sample {sample}: no file has this conversation"
                for score in scores:
                    score.place.drop(UnfitError("", what))
                continue
            metric_id = self.set_ups.metric_of(scores[0].row, scenario)
            verdicts = self.scores.verdicts(scores, metric_id)
            yield from self.verdicts_on(finished[-1], verdicts)

    def _finished(self, key: ConversationKey) -> list[KnownTake]:
        return [take for take in self.setting.known.takes(key) if take.finished]
