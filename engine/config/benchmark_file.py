"""`benchmark.yaml`: the topic of a benchmark and the behaviours that it measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from engine.benchmark import Metric, Track, When
from engine.branches import name_of
from engine.config.faults import doubles, in_file_order, problems_of
from engine.config.values import ConfigSection, Listed, Shape, ShortName, Words, one_of_words
from engine.config.wording import either_of, nearest_word, quotable, slip_of
from engine.config.yaml_text import KeyPath, YamlDocument, read_yaml
from engine.errors import InputError, Problem
from engine.lint import LintRule

WHEN_IN_WORDS: Final = either_of(When)
OLD_TRACKS: Final = {"flourishing": Track.POSITIVE, "restrain_harm": Track.NEGATIVE}

_PUBLISHED_KEYS: Final = frozenset(
    {"source", "contributor", "contributors", "metric_contributor", "mattersBecause"}
)
"""Keys of published benchmarks that are kept and ignored."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A benchmark as it is defined in its file."""

    path: Path
    name: str
    """The name of its folder, for ids, commands and files."""
    title: str
    """Its `name` in the file, for people."""
    description: str
    user_context: str | None
    """What the target is told, whatever the scenario."""
    metrics: tuple[Metric, ...]
    """Empty until a person or the generator writes them."""
    warnings: tuple[str, ...] = ()
    lint_ignore: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The reasons for silencing `engine.lint`: by id of a metric or scenario, then by rule."""


def _known_rule(word: str) -> str:
    if word in set(LintRule):
        return word
    meant = nearest_word(word, tuple(LintRule))
    hint = f"; did you mean `{meant}`?" if meant else "; docs/benchmark.md lists them"
    raise ValueError(f"`{quotable(word)}` is no lint rule{hint}")


class _OpenShape(Shape):
    """Accepts unknown keys, which other tools and people may use."""

    model_config = ConfigDict(extra="allow")


KnownRule = Annotated[str, AfterValidator(_known_rule)]


class MetricShape(_OpenShape):
    """One behaviour that every conversation on it is judged for."""

    id: ShortName = Field(description="a short name such as m01")
    """The prefix of the ids of its scenarios and conversations."""
    name: Words = Field(description="a few words")
    """Its name in tables and on screens."""
    type: Annotated[str, one_of_words((*Track, *OLD_TRACKS), either_of(Track))] = Field(
        description="`positive` (should be there) or `negative` (should not)"
    )
    """Whether the behaviour is wanted. The evaluator is not told."""
    definition: Words = Field(description="a description of the behaviour itself")
    """What the evaluator looks for; for a negative metric, the bad behaviour. A change makes its
    verdicts stale."""
    examples: Listed[Words] | None = Field(default=None, description="a list of short texts")
    """Sentences of an assistant that show the behaviour. The generator sees them when it writes
    scenarios; the evaluator does not."""
    when: Annotated[str, one_of_words(tuple(When), WHEN_IN_WORDS)] = Field(
        default=When.ANYWHERE.value, description=WHEN_IN_WORDS
    )
    """Where the behaviour must be shown: in any reply, in the last one, in one from the second
    reached landmark on, or in every reply."""


class SettingShape(_OpenShape):
    """What the target is told, whatever the scenario."""

    user_context: Words | None = Field(default=None, description="text")
    """The target's system prompt, unless the scenario or the target has its own."""


class BenchmarkShape(_OpenShape):
    """The whole of `benchmark.yaml`, checked."""

    name: Words = Field(description="a title for people")
    """The benchmark's title in tables, screens and pages. Commands use the name of its folder."""
    description: Words = Field(description="what the benchmark is about, in a few sentences")
    """The text that the generator writes metrics and scenarios from."""
    scenario: ConfigSection[SettingShape] = Field(
        default_factory=SettingShape, description="keys and values"
    )
    """The setting that the target is told."""
    metrics: Listed[MetricShape] | None = Field(default=None, description="a list of metrics")
    """The behaviours that are measured. Left out, the generator writes them into the file."""
    lint_ignore: ConfigSection[Mapping[ShortName, Mapping[KnownRule, Words]]] = Field(
        default_factory=dict, description="ids, and for each a rule with a reason"
    )
    """Lint rules to silence for a metric or scenario, each with a reason."""


def load_definition(path: Path) -> Definition:
    """Read and check a `benchmark.yaml`. Raises `InputError` with every problem found."""
    return definition_of(read_yaml(path))


def definition_of(document: YamlDocument) -> Definition:
    """Check what a file says. Raises `InputError` with every problem found."""
    problems = [
        *_slips(document),
        *doubles(_ids(document), document, "two metrics have this id"),
    ]
    try:
        benchmark = BenchmarkShape.model_validate(document.data)
    except ValidationError as error:
        problems += problems_of(error, document, BenchmarkShape)
    else:
        if not problems:
            return _definition(benchmark, document)
    raise InputError(in_file_order(problems))


def _definition(benchmark: BenchmarkShape, document: YamlDocument) -> Definition:
    return Definition(
        path=document.path,
        name=name_of(document.path.parent),
        title=benchmark.name,
        description=benchmark.description,
        user_context=benchmark.scenario.user_context,
        metrics=tuple(metric_of_shape(metric) for metric in benchmark.metrics or ()),
        warnings=tuple(_warnings(benchmark, document)),
        lint_ignore=benchmark.lint_ignore,
    )


def metric_of_shape(written: MetricShape) -> Metric:
    """A validated metric as a `Metric`."""
    return Metric(
        id=written.id,
        name=written.name,
        track=OLD_TRACKS.get(written.type) or Track(written.type),
        definition=written.definition,
        examples=written.examples or (),
        when=When(written.when),
    )


def _warnings(benchmark: BenchmarkShape, document: YamlDocument) -> Iterator[str]:
    for number, metric in enumerate(benchmark.metrics or ()):
        if metric.type in OLD_TRACKS:
            line = document.place(("metrics", number, "type")).line
            now = OLD_TRACKS[metric.type]
            yield f"{document.path}:{line}: `{metric.type}` is the old word for `{now}`"


def _slips(document: YamlDocument) -> Iterator[Problem]:
    """A problem for each unknown key that looks like a typo of a known one."""
    yield from _slips_in(document, (), set(BenchmarkShape.model_fields))
    yield from _slips_in(document, ("scenario",), set(SettingShape.model_fields))
    for number, _ in enumerate(_metric_list(document)):
        yield from _slips_in(document, ("metrics", number), set(MetricShape.model_fields))


def _slips_in(document: YamlDocument, at: KeyPath, known: set[str]) -> Iterator[Problem]:
    keys = document.value(at)
    if not isinstance(keys, dict):
        return
    for key in keys.keys() - known - _PUBLISHED_KEYS:
        meant = slip_of(key, known)
        if meant is not None and meant not in keys:
            hint = f"did you mean `{meant}`?"
            yield document.problem((*at, key), "unknown key", hint=hint, of_key=True)


def _ids(document: YamlDocument) -> Iterator[tuple[KeyPath, object]]:
    for number, metric in enumerate(_metric_list(document)):
        if isinstance(metric, dict):
            yield ("metrics", number, "id"), metric.get("id")


def _metric_list(document: YamlDocument) -> list[Any]:
    metrics = document.data.get("metrics")
    return metrics if isinstance(metrics, list) else []
