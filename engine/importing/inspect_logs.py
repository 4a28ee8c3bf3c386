"""Converts logs of Inspect to a folder of our own files, which is imported like any other.

A task is a benchmark, the model under test a target, an epoch a sample. A scenario is made for one
metric, so a sample with several scores that are taken becomes as many scenarios, each with the same
transcript. Scores wait until all samples are read: only then is it known what their numbers mean.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os.path import commonpath
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from engine.benchmark import TRANSCRIPT_ID, base_id
from engine.branches import Branch, folder_of
from engine.errors import InputError, Problem
from engine.importing.fields import OURS, PARTIAL, Names, fitting_name
from engine.importing.inspect_files import (
    InspectResults,
    InspectSample,
    InspectScore,
    OpenLog,
    is_log,
    open_log,
)
from engine.importing.inspect_samples import (
    AUDITOR,
    EXPORTER,
    LoggedSettings,
    LoggedTargets,
    alternating_turns,
    conversation_row,
    foreign_scenario,
    own_scenario,
    own_verdicts,
    usage_row,
)
from engine.importing.report import FileReport, ImportReport
from engine.importing.source import ImportableFolder, Source
from engine.store.database import Store
from engine.store.imports import TESTED
from engine.store.mirror_rows import JsonObject
from engine.store.reader import Reader

_WORDS: Final = {
    "C": True,
    "I": False,
    "yes": True,
    "true": True,
    "no": False,
    "false": False,
}
"""What Inspect's `value_to_float` reads as 1 and 0, apart from numbers. Partly correct, `P`, and no
answer, `N`, are no verdict."""
_TOLD: Final = ("id", "name", "type", "definition", "when")
"""The text fields of a metric in our own export."""
MOST: Final = 200
"""The most metrics of a benchmark; more would be data, not judgements."""


@dataclass(frozen=True, slots=True)
class GivenScore:
    """A value that a scorer gave, with its explanation."""

    scorer: str
    part: str | None
    """The key of the value, if the score has several; otherwise None."""
    value: object
    explanation: str

    @property
    def name(self) -> str:
        return self.scorer if self.part is None else self.part


def given_scores(sample: InspectSample) -> Iterator[GivenScore]:
    """Yield each value of a sample's scores."""
    for scorer, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, dict) else {None: score.value}
        for part, value in parts.items():
            yield GivenScore(scorer, part, value, _explanation(score))


def _explanation(score: InspectScore) -> str:
    answer = score.answer if isinstance(score.answer, str) else None
    parts = [] if answer is None else [f"Answer: {answer}"]
    return "\n\n".join([*parts, *([score.explanation] if score.explanation else [])])


def _read_value(value: object) -> bool | float | None:
    """Read a score's value as Inspect's `value_to_float` does; None for what that cannot read, and
    for what is neither present nor absent."""
    if isinstance(value, str):
        # the letters are read as they are, the words in any case
        word = value if len(value) == 1 else value.lower()
        if word in _WORDS:
            return _WORDS[word]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value if isinstance(value, bool) else None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class LoggedMetric:
    """A metric found in logs, and what its values in all samples were like."""

    id: str
    scorer: str
    name: str
    about: dict[str, Any] | None = None
    """The definition in our own export; None for other logs."""
    low: float = math.inf
    high: float = -math.inf

    def observe(self, value: object) -> None:
        number = _read_value(value)
        if number is not None and not isinstance(number, bool):
            self.low, self.high = min(self.low, number), max(self.high, number)

    def threshold(self, chosen: float | None) -> float | None:
        """Return from where on a number means present: what a person has chosen, or the middle if
        all are between 0 and 1; None if they are on a scale that nobody told."""
        if chosen is None and self.low >= 0 and self.high <= 1:
            return 0.5
        return chosen

    def is_present(self, value: object, chosen: float | None) -> bool | None:
        """Whether the behaviour is present; None if the value does not say."""
        read = _read_value(value)
        if read is None or isinstance(read, bool):
            return read
        threshold = self.threshold(chosen)
        return None if threshold is None else read >= threshold

    def rule_words(self, chosen: float | None) -> str:
        """Say which values mean present."""
        if self.low > self.high:  # words, and no number
            return "C, yes and true count as present, I, no and false as absent"
        threshold = self.threshold(chosen)
        if threshold is not None:
            return f"from {threshold:g} on it counts as present"
        return (
            f"numbers from {self.low:g} to {self.high:g}, on a scale that the log does not tell, "
            "so none is a verdict; `--present-from N` makes them verdicts"
        )


@dataclass(slots=True)
class LoggedMetrics:
    """The metrics of one benchmark."""

    by_key: dict[tuple[str, str | None], LoggedMetric] = field(default_factory=dict)
    """By scorer and key."""
    _ids: set[str] = field(default_factory=set)

    def of(self, score: GivenScore) -> LoggedMetric | None:
        """Return the metric of a score, adding a new one; None for a list, or if there are too
        many."""
        key = (score.scorer, score.part)
        if isinstance(score.value, dict | list):
            return None
        if key not in self.by_key and len(self.by_key) < MOST:
            name = self._free_id(score)
            self.by_key[key] = LoggedMetric(name, score.scorer, score.name)
        return self.by_key.get(key)

    def own_id(self, metric: Mapping[str, Any]) -> str:
        """Add a metric that our own export defines, and return its id."""
        about: dict[str, Any] = {
            name: value for name in _TOLD if isinstance(value := metric.get(name), str) and value
        }
        listed = metric.get("examples")
        if isinstance(listed, list) and (examples := [one for one in listed if type(one) is str]):
            about["examples"] = examples
        name = str(metric.get("id"))
        self.by_key.setdefault((name, None), LoggedMetric(name, name, name, about))
        self._ids.add(name.casefold())
        return name

    def _free_id(self, score: GivenScore) -> str:
        wished = [score.name, f"{score.scorer}-{score.name}"]
        wished += [f"score-{number}" for number in range(1, len(self._ids) + 2)]
        fitting = (fitting_name(name[:38]) for name in wished)
        name = next(name for name in fitting if name and name.casefold() not in self._ids)
        self._ids.add(name.casefold())
        return name


_HEAD: Final = """\
# Made from logs of Inspect. What stands here counts: say what each metric means before you have
# conversations judged again; after a change of a type, import the logs again.
"""
_LONGEST: Final = 5_000
"""Characters of a description."""
_REPEATED: Final = (
    "each sample is one conversation for each of its metrics, with the same transcript; what is "
    "said of several metrics together takes that into account"
)
_NOT_BOTH: Final = "samples in which user and target do not both speak, not taken"
_FAILED_BEFORE: Final = "samples that failed before user and target had both spoken, not taken"

Tested = Mapping[str, Mapping[str, Sequence[LoggedSettings]]]
"""By benchmark and model, the settings under which it was tested."""


@dataclass(frozen=True, slots=True)
class LogChoice:
    """A person's choices about logs, and what earlier imports found."""

    present_from: float | None = None
    """Numbers from here on mean present; None for the middle between 0 and 1."""
    metrics: Collection[str] = ()
    """Names of the scores to take; empty for the only one."""
    tested: Tested = field(default_factory=dict)


class SeveralScoresError(Exception):
    """A task has several scores, and none was named."""


@dataclass(slots=True)
class LoggedBenchmark:
    """What was found in the logs of one task. Rows go to the files of `folder` as they are read."""

    name: str
    title: str
    description: str
    folder: Path
    choice: LogChoice
    targets: LoggedTargets
    logs: list[Path] = field(default_factory=list)
    metrics: LoggedMetrics = field(default_factory=LoggedMetrics)
    notes: Counter[str] = field(default_factory=Counter)
    read_as: list[str] = field(default_factory=list)
    """For each metric, which of its values mean present; and what is different about targets."""
    refused: bool = False
    _given: set[str] = field(default_factory=set)
    """The names of the scores that were taken."""
    _seen: set[bytes] = field(default_factory=set)
    """Digests of the samples' ids: a run that was retried has some samples twice."""
    _numbers: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """How many samples were taken from earlier logs, by target and sample id."""
    _ids: dict[str, str] = field(default_factory=dict)
    """What our scenario ids begin with, by their sample ids."""
    _scenarios: dict[str, bytes] = field(default_factory=dict)
    """A digest of each scenario, by id."""
    _scores: list[tuple[JsonObject, LoggedMetric | None, GivenScore | None]] = field(
        default_factory=list
    )
    """Rows of `scores.json`, without their verdict where a score is to be read as one."""

    def read(self, path: Path, log: OpenLog) -> list[Problem]:
        """Add a log's samples, and return the problems."""
        about, samples = log
        target = self.targets.of(about)
        before = dict(self._numbers)
        # thousands of samples may have the same fault
        report = FileReport(path)
        runs = self.folder / "runs" / "logs"
        with (
            self.folder.joinpath("scenarios.json").open("ab") as scenarios,
            runs.joinpath("conversations.json").open("ab") as conversations,
        ):
            for sample in () if self.refused else samples:
                if isinstance(sample, Problem):
                    report.dropped += 1
                    report.tell(sample)
                    continue
                try:
                    rows = list(self._rows(sample, about, target, before))
                except SeveralScoresError:
                    self.refused = True
                    what = f"it has several scores: {', '.join(sorted(self._given))[:300]}"
                    hint = "name what to take: `--metric NAME`, which may be repeated"
                    return [Problem(what, path, hint=hint)]
                for scenario, conversation in rows:
                    if self._is_new(scenario):
                        scenarios.write(_array_part(scenario, scenarios.tell()))
                    conversations.write(_array_part(conversation, conversations.tell()))
        more = report.dropped - len(report.problems)
        left = [Problem(f"and {more} more samples like these", path)] if more else []
        return [*report.problems, *left]

    def _rows(
        self,
        sample: InspectSample,
        about: InspectResults,
        target: Mapping[str, str],
        before: Mapping[tuple[str, str], int],
    ) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Yield a scenario and a conversation for each metric that a sample has a verdict on."""
        own = sample.uuid or f"{about.eval_id}/{sample.id}/{sample.epoch}"
        mark = blake2b(own.encode(errors="replace"), digest_size=12).digest()
        if mark in self._seen:
            self.notes["samples that are there twice, taken once"] += 1
            return
        self._seen.add(mark)
        spoken = alternating_turns(sample, about.model_roles or {})
        if len(spoken.transcript) < 2:
            self.notes[_NOT_BOTH if sample.error is None else _FAILED_BEFORE] += 1
            return
        # epochs count from 1; logs of the same task continue where the one before ended
        key = (target["id"], str(sample.id))
        number = before.get(key, 0) + max(0, min(sample.epoch, 10**6) - 1)
        self._numbers[key] = max(self._numbers[key], number + 1)
        played = conversation_row(sample, about, target, number, spoken)
        for kind, times in spoken.asides.items():
            self.notes[f"{kind}, not shown as speech"] += times
        usage = {"_usage": usage_row(sample, target["label"])}
        metric = sample.metadata.get("metric")
        if EXPORTER in about.packages and isinstance(metric, dict):
            ids = {"id": str(sample.id), "metric_id": self.metrics.own_id(metric)}
            self._keep_own_verdicts(ids["id"], sample, played)
            yield {**ids, **own_scenario(sample)}, {**ids, **played, **usage}
            return
        scenario = foreign_scenario(sample, about, spoken)
        for ids, told in self._scored(sample, played):
            yield {**ids, **scenario, **told}, {**ids, **played, **usage}
            usage = {}  # only the first has it

    def _keep_own_verdicts(self, name: str, sample: InspectSample, played: JsonObject) -> None:
        verdicts = own_verdicts(sample)
        if verdicts and PARTIAL not in played:
            row = {
                "id": name,
                "target_model": played["target_model"],
                "sample": played["sample"],
                "justification": verdicts[-1]["justification"],
                OURS: {"verdicts": verdicts},
            }
            self._scores.append((row, None, None))

    def _scored(
        self, sample: InspectSample, played: JsonObject
    ) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Keep the scores that are taken; yield the ids of each one's scenario, and what its
        scenario tells besides. Raises `SeveralScoresError`."""
        scores = list(given_scores(sample))
        wanted = self.choice.metrics
        taken = [score for score in scores if not wanted or score.name in wanted]
        known = [(metric, score) for score in taken if (metric := self.metrics.of(score))]
        self._given.update(score.name for _, score in known)
        if not wanted and len(self._given) > 1:
            raise SeveralScoresError
        self.notes["scores that were not asked for, left out"] += len(scores) - len(taken)
        self.notes["scores that are lists, or of too many metrics, left out"] += len(taken) - len(
            known
        )
        self.notes["samples without a score, not taken"] += not known
        theirs = self._free_id(str(sample.id))
        for metric, score in known:
            metric.observe(score.value)
            ids = {"id": f"{theirs}.{metric.id}" if wanted else theirs, "metric_id": metric.id}
            if PARTIAL not in played:
                place = {"target_model": played["target_model"], "sample": played["sample"]}
                self._scores.append(({**ids, **place}, metric, score))
            yield ids, {TRANSCRIPT_ID: theirs} if wanted else {}

    def _free_id(self, theirs: str) -> str:
        """Return our id for a sample: unique, and not like that of a variant."""
        if theirs not in self._ids:
            fitting = fitting_name(theirs[:1_000]) or "sample"
            if base_id(fitting) != fitting:
                fitting = f"{base_id(fitting)}-{fitting[len(base_id(fitting)) + 1 :]}"
            if len(fitting) > 40 or fitting in self._ids.values():
                mark = blake2b(theirs.encode(errors="replace"), digest_size=4).hexdigest()
                fitting = f"{fitting[:30].rstrip('-._')}-{mark}"
            self._ids[theirs] = fitting
        return self._ids[theirs]

    def _is_new(self, scenario: JsonObject) -> bool:
        """Whether it is the first of its id; later ones that differ are counted."""
        digest = blake2b(msgspec.json.encode(scenario), digest_size=12).digest()
        first = self._scenarios.setdefault(scenario["id"], digest)
        if first != digest:
            note = "conversations whose sample has another input or system message elsewhere"
            self.notes[note] += 1
        return first is digest

    def write(self) -> None:
        """Complete the files of the folder, once all logs are read."""
        metrics = {metric.id: metric for metric in self.metrics.by_key.values()}.values()
        chosen = self.choice.present_from
        definition = {
            "name": self.title.strip()[:200] or self.name,
            "description": self.description.strip()[:_LONGEST] or self.name,
            "metrics": [_metric(metric, chosen) for metric in metrics],
        }
        text = yaml.safe_dump(definition, allow_unicode=True, sort_keys=False, width=100)
        self.folder.joinpath("benchmark.yaml").write_text(_HEAD + text, "utf-8")
        self.read_as += self.targets.differences
        read_as = [_read_as(metric, chosen) for metric in metrics if metric.about is None]
        self.read_as += [*read_as, *([_REPEATED] if len(read_as) > 1 else [])]
        runs = self.folder / "runs" / "logs"
        for path in (self.folder / "scenarios.json", runs / "conversations.json"):
            with path.open("ab") as file:
                file.write(b"\n]\n" if file.tell() else b"[]\n")
        scores = [self._score(*score) for score in self._scores]
        runs.joinpath("scores.json").write_bytes(msgspec.json.encode(scores))

    def _score(
        self, row: JsonObject, metric: LoggedMetric | None, score: GivenScore | None
    ) -> JsonObject:
        if metric is None or score is None:
            return row
        chosen = self.choice.present_from
        present = metric.is_present(score.value, chosen)
        if present is None:
            self.notes[f"scores of {metric.id} that are no verdict, so they count in no rate"] += 1
        words = f"{metric.name}: {str(score.value)[:200]} ({metric.rule_words(chosen)})."
        return {
            **row,
            "judge": metric.scorer[:200],
            "present": present,
            "justification": "\n\n".join(part for part in (words, score.explanation) if part),
        }

    def nothing_problem(self) -> Problem:
        """Say why nothing of it can be taken."""
        counts = [f"{times} {kind}" for kind, times in sorted((+self.notes).items())]
        counted = "; ".join(counts) or "it has no samples"
        return Problem(f"there is nothing to take in it: {counted}", self.logs[0])


def _array_part(row: JsonObject, written: int) -> bytes:
    """A row of an array of which so many bytes are written."""
    return (b",\n" if written else b"[\n") + msgspec.json.encode(row)


def _metric(metric: LoggedMetric, chosen: float | None) -> JsonObject:
    if metric.about is not None:
        return dict(metric.about)
    described = (
        f"What the scorer {metric.scorer} of a log of Inspect calls {metric.name}. The log does "
        "not say what that is: write it here before a conversation is judged again."
    )
    return {
        "id": metric.id,
        "name": metric.name,
        "type": "positive",
        "definition": described[:_LONGEST],
        "imported": f"from Inspect's scorer {metric.scorer}: {metric.rule_words(chosen)}",
    }


def _read_as(metric: LoggedMetric, chosen: float | None) -> str:
    sentence = f"metric {metric.id} (positive): {metric.rule_words(chosen)}"
    note = "; the type is assumed, change it in benchmark.yaml and import again"
    return sentence + note if chosen is not None and metric.low <= metric.high else sentence


KIND: Final = "logs of Inspect"


def known_settings(reader: Reader) -> Tested:
    """Return the settings that earlier imports found."""
    noted = reader.mirrored(TESTED)
    if noted is None:
        return {}
    try:
        return msgspec.json.decode(noted.digest, type=dict[str, dict[str, list[dict[str, str]]]])
    except msgspec.DecodeError:  # a damaged store's
        return {}


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder that was made from logs."""

    folder: ImportableFolder
    problems: list[Problem]
    made: Mapping[str, LoggedBenchmark]
    """By benchmark."""

    async def remember(self, store: Store) -> None:
        """Store the settings that were found, so that a log of others, imported later, is a target
        of its own."""
        found = {name: benchmark.targets.tested for name, benchmark in self.made.items()}
        known = {**known_settings(store.reader), **found}
        await store.set_mirrored({TESTED: msgspec.json.encode(known).decode()})

    def tell(self, report: ImportReport) -> None:
        """Complete the report of the folder's import, so that it is about the logs."""
        report.problems[:0] = self.problems
        sources = {source.name: source for source in self.folder.sources}
        for benchmark in report.benchmarks:
            source = sources[benchmark.name]
            benchmark.notes.update(+self.made[benchmark.name].notes)
            benchmark.read_as += self.made[benchmark.name].read_as
            benchmark.refused = [_of_log(problem, source) for problem in benchmark.refused]
            for file in benchmark.files:
                file.problems = [_of_log(problem, source) for problem in file.problems]
                file.path = source.place


def _of_log(problem: Problem, source: Source) -> Problem:
    if problem.path is None or source.folder not in problem.path.parents:
        return problem
    return replace(problem, path=source.place, line=None)


def logs_in(place: Path) -> list[Path]:
    """Return the logs in this folder, or this log; empty if it is something else."""
    if place.is_dir():
        return sorted(path for path in place.iterdir() if path.suffix.lower() == ".eval")
    return [place] if is_log(place) else []


def folder_of_logs(logs: Sequence[Path], into: Path, choice: LogChoice) -> LogFolder:
    """Convert logs into the empty folder `into`. Raises `InputError` if nothing can be taken."""
    benchmarks: dict[str, LoggedBenchmark] = {}
    names = Names(otherwise="task")
    problems: list[Problem] = []
    for path in logs:
        try:
            with open_log(path) as log:
                benchmark = _benchmark(path, log[0], into, benchmarks, names, choice)
                problems += benchmark.read(path, log)
        except InputError as error:
            problems += error.problems
    with_problem = {problem.path for problem in problems}
    sources: list[Source] = []
    for benchmark in benchmarks.values():
        if benchmark.metrics.by_key and not benchmark.refused:
            benchmark.write()
            logged = benchmark.logs
            origin = logged[0] if len(logged) == 1 else Path(commonpath(logged))
            sources.append(Source(benchmark.name, benchmark.folder, published=False, origin=origin))
        elif with_problem.isdisjoint(benchmark.logs):
            problems.append(benchmark.nothing_problem())
    if not sources:
        raise InputError(problems)
    folder = ImportableFolder(into, KIND, sources)
    return LogFolder(folder, problems, {one.name: benchmarks[one.name] for one in sources})


def _benchmark(
    path: Path,
    about: InspectResults,
    into: Path,
    benchmarks: dict[str, LoggedBenchmark],
    names: Names,
    choice: LogChoice,
) -> LoggedBenchmark:
    """Return the benchmark of a log's task, adding a new one. Raises `InputError`."""
    behaviour, described = _behaviour(about)
    task = behaviour or about.task.rsplit("/", 1)[-1]
    name = task if Branch.parse(task) else names.ours(task)
    if name is None:
        raise InputError(Problem(f"{task[:100]!r} cannot be the name of a benchmark", path))
    if name not in benchmarks:
        folder = into / folder_of(name)
        folder.joinpath("runs", "logs").mkdir(parents=True)
        title = behaviour or about.task_display_name or about.task
        otherwise = f"From logs of Inspect, of the task {about.task}."
        description = described or about.task_description or otherwise
        tested = {role: list(known) for role, known in choice.tested.get(name, {}).items()}
        benchmarks[name] = LoggedBenchmark(
            name, title, description, folder, choice, LoggedTargets(tested)
        )
    benchmarks[name].logs.append(path)
    return benchmarks[name]


def _behaviour(about: InspectResults) -> tuple[str | None, str | None]:
    """Return name and description of the behaviour that a log of Bloom measures: all its logs have
    the same task name."""
    behaviour = (about.metadata or {}).get("behavior")
    if AUDITOR not in (about.model_roles or {}) or not isinstance(behaviour, dict):
        return None, None
    name, described = (behaviour.get(key) for key in ("name", "description"))
    if not isinstance(name, str) or not name:
        return None, None
    return name, described if isinstance(described, str) else None
