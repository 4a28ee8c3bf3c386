"""`benchmark.yaml`: the topic of a benchmark and the behaviours that it measures."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from engine.benchmark import Metric, Track, When, name_fault
from engine.branches import name_of
from engine.config.faults import doubles, in_file_order, problems_of
from engine.config.values import Listed, Name, Section, Shape, Words
from engine.config.wording import nearest_word, quotable, slip_of
from engine.config.yaml_text import KeyPath, YamlDocument, parse_yaml, read_yaml
from engine.errors import InputError, Problem
from engine.files import read_regular, replace_file
from engine.lint import Rule

KEY: Final = "metrics"
WHEN_IN_WORDS: Final = "`anywhere`, `at_the_end`, `under_pressure` or `every_reply`"
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


def _known_track(word: str) -> str:
    if word in OLD_TRACKS or word in set(Track):
        return word
    meant = nearest_word(word, (*Track, *OLD_TRACKS))
    hint = f"; did you mean `{meant}`?" if meant else ""
    raise ValueError(f"found `{quotable(word)}`, expected `positive` or `negative`{hint}")


def _known_when(word: str) -> str:
    if word in set(When):
        return word
    meant = nearest_word(word, tuple(When))
    hint = f"; did you mean `{meant}`?" if meant else ""
    raise ValueError(f"found `{quotable(word)}`, expected {WHEN_IN_WORDS}{hint}")


def _known_rule(word: str) -> str:
    if word in set(Rule):
        return word
    meant = nearest_word(word, tuple(Rule))
    hint = f"; did you mean `{meant}`?" if meant else "; docs/benchmark.md lists them"
    raise ValueError(f"`{quotable(word)}` is no rule of `crosswind lint`{hint}")


class _OpenShape(Shape):
    """Accepts unknown keys, which other tools and people may use."""

    model_config = ConfigDict(extra="allow")


KnownRule = Annotated[str, AfterValidator(_known_rule)]


class MetricShape(_OpenShape):
    """One behaviour that every conversation on it is judged for."""

    id: Name = Field(description="a short name such as m01")
    """The prefix of the ids of its scenarios and conversations."""
    name: Words = Field(description="a few words")
    """Its name in tables and on screens."""
    type: Annotated[str, AfterValidator(_known_track)] = Field(
        description="`positive` (should be there) or `negative` (should not)"
    )
    """Whether the behaviour is wanted. The evaluator is not told."""
    definition: Words = Field(description="a description of the behaviour itself")
    """What the evaluator looks for; for a negative metric, the bad behaviour. A change makes its
    verdicts stale."""
    examples: Listed[Words] | None = Field(default=None, description="a list of short texts")
    """Sentences of an assistant that show the behaviour. The generator sees them when it writes
    scenarios; the evaluator does not."""
    when: Annotated[str, AfterValidator(_known_when)] = Field(
        default=When.ANYWHERE.value, description=WHEN_IN_WORDS
    )
    """Where the behaviour must be shown: in any reply, in the last one, in one from the second
    delivered landmark on, or in every reply."""


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
    scenario: Section[SettingShape] = Field(
        default_factory=SettingShape, description="keys and values"
    )
    """The setting that the target is told."""
    metrics: Listed[MetricShape] | None = Field(default=None, description="a list of metrics")
    """The behaviours that are measured. Left out, the generator writes them into the file."""
    lint_ignore: Section[Mapping[Name, Mapping[KnownRule, Words]]] = Field(
        default_factory=dict, description="ids, and for each a rule with a reason"
    )
    """Rules of `crosswind lint` to silence for a metric or scenario, each with a reason."""


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


def write_metrics(path: Path, metrics: Sequence[Metric]) -> None:
    """Write `metrics` into the file at `path`, and leave all else in it as it is. Only the engine
    that holds the workspace may do this.

    Raises `InputError`, and then nothing has changed. A link is followed only within the
    workspace, the folder two levels above the benchmark's own.
    """
    metrics = [_writable(metric) for metric in metrics]
    if problems := list(_unfit(path, metrics)):
        raise InputError(problems)
    real = _inside_workspace(path)
    before = load_definition(real)
    raw = read_regular(real)
    content = _with_metrics(raw, before, metrics)
    if content == raw:
        return
    try:
        if read_regular(real) != raw:
            raise InputError(Problem("this file was changed meanwhile; nothing was written", path))
        replace_file(real, content, is_only_writer=True)
    except OSError as error:
        reason = error.strerror or "unknown reason"
        what = f"the metrics cannot be written, so nothing was changed: {reason}"
        raise InputError(Problem(what, path)) from None


def _inside_workspace(path: Path) -> Path:
    folders = path.absolute().parents
    root = folders[min(2, len(folders) - 1)].resolve()
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InputError(Problem("there is no such file", path)) from None
    if not real.is_relative_to(root):
        what = f"this leads out of the workspace, to {real}; nothing was written"
        raise InputError(Problem(what, path, hint="put the file itself there"))
    return real


def _with_metrics(raw: bytes, before: Definition, metrics: Sequence[Metric]) -> bytes:
    """The new content, after checking that it has these metrics and no other change."""
    # 16 ms to load a second YAML library: every command reads this file, and few write it
    from engine.config.write_back import text_with_metrics

    mark = "\ufeff" if raw.startswith(codecs.BOM_UTF8) else ""
    text = raw.decode("utf-8-sig")
    try:
        new = text_with_metrics(text, before.metrics, metrics)
    except ValueError:
        new = ""
    if not _differ_in_metrics_only(text, new, metrics, before.path):
        what = "the metrics cannot be written without changing more than them; nothing was written"
        hint = "write every key of this file on a line of its own"
        raise InputError(Problem(what, before.path, hint=hint))
    return f"{mark}{new}".encode()


def _differ_in_metrics_only(old: str, new: str, metrics: Sequence[Metric], path: Path) -> bool:
    try:
        document = parse_yaml(new, path)
        found = definition_of(document).metrics
    except InputError:
        return False
    was = parse_yaml(old, path).data | {KEY: None}
    now = document.data | {KEY: None}
    expected = [_comparable(astuple(metric)) for metric in metrics]
    return (
        [_comparable(astuple(metric)) for metric in found] == expected
        and list(was) == [key for key in now if key in was]
        and _comparable(was) == _comparable(now)
    )


def _comparable(value: Any) -> Any:
    """Values without trailing line ends, as writing may add one at the end of the file."""
    match value:
        case str():
            return value.rstrip("\n")
        case dict():
            return {key: _comparable(member) for key, member in value.items()}
        case list() | tuple():
            return [_comparable(member) for member in value]
        case _:
            return value


def _unfit(path: Path, metrics: Sequence[Metric]) -> Iterator[Problem]:
    """Problems that would keep the file from being read again."""
    seen: set[str] = set()
    for number, metric in enumerate(metrics):
        faults = {"id": name_fault(metric.id)}
        if metric.id.casefold() in seen:
            faults["id"] = "two of the metrics to be written have this id"
        faults |= {
            key: "this is empty, so the metric cannot be written"
            for key, text in (("name", metric.name), ("definition", metric.definition))
            if not text.strip()
        }
        seen.add(metric.id.casefold())
        for key, fault in faults.items():
            if fault is not None:
                yield Problem(fault, path, key=f"{KEY}[{number}].{key}")


def _writable(metric: Metric) -> Metric:
    """The metric without lone surrogates, which a model's answer may hold and a file cannot."""
    return replace(
        metric,
        name=_join_surrogates(metric.name),
        definition=_join_surrogates(metric.definition),
        examples=tuple(_join_surrogates(example) for example in metric.examples if example.strip()),
    )


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
