"""Writes metrics into a `benchmark.yaml` and leaves all its other text as it was; and turns
a metric or a scenario into YAML for a person's editor and back, with the line of every fault.

Only what changes is rewritten: an unchanged metric keeps its lines, and an edited one all but the
values that differ. Dumping the whole file would change its comments, line breaks and quotes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError

from engine.benchmark import Landmark, Metric, Scenario, When, name_fault
from engine.config.benchmark_file import (
    Definition,
    MetricShape,
    definition_of,
    load_definition,
    metric_of_shape,
)
from engine.config.faults import in_file_order, problems_of
from engine.config.values import Listed, Shape, Words
from engine.config.yaml_text import YamlDocument, parse_yaml
from engine.errors import InputError, Problem
from engine.files import read_regular, replace_file

KEY: Final = "metrics"

_LINE_LENGTH: Final = 80
_STEP: Final = 2
_NO_LINE: Final = 2**31 - 1
"""A line width at which no line is broken."""
_NEEDS_ESCAPES: Final = re.compile(
    "[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader that the file was read with: the two disagree on some tabs."""
_RESOLVER: Final[Any] = yaml.SafeLoader("")

_Value = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _MetricEntry:
    """One metric as it stands in the file."""

    metric: Metric
    node: Any
    lead: str
    """Blank lines and comments above it, and its indentation within brackets."""
    begin: int
    end: int
    """Of its own text; of a metric in lines, to the last line end."""


@dataclass(frozen=True, slots=True)
class _FileLayout:
    """A text split around its metrics, and its style."""

    head: str
    """The text up to the first metric's own lines."""
    entries: tuple[_MetricEntry, ...]
    tail: str
    column: int
    """The indentation of the metrics' dashes."""
    offset: int
    """The indentation of a list's dashes, from their key."""
    line_end: str


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
    content = _content_with_metrics(raw, before, metrics)
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


def _content_with_metrics(raw: bytes, before: Definition, metrics: Sequence[Metric]) -> bytes:
    """The new content, after checking that it has these metrics and no other change."""
    mark = "\ufeff" if raw.startswith(codecs.BOM_UTF8) else ""
    text = raw.decode("utf-8-sig")
    try:
        new = _with_metrics(text, before.metrics, metrics)
    except yaml.YAMLError:
        new = ""
    if not _differ_in_metrics_only(text, new, metrics, before.path):
        what = "the metrics cannot be written without changing more than them; nothing was written"
        hint = "write every key of this file on a line of its own"
        raise InputError(Problem(what, before.path, hint=hint))
    return f"{mark}{new}".encode()


def _differ_in_metrics_only(old: str, new: str, metrics: Sequence[Metric], path: Path) -> bool:
    try:
        document = parse_yaml(new, path)
        written = definition_of(document).metrics
    except InputError:
        return False
    was = parse_yaml(old, path).data | {KEY: None}
    now = document.data | {KEY: None}
    expected = [_comparable(astuple(metric)) for metric in metrics]
    return (
        [_comparable(astuple(metric)) for metric in written] == expected
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


def _with_metrics(text: str, standing: Sequence[Metric], metrics: Sequence[Metric]) -> str:
    """`text` with its metrics, which are `standing`, replaced by `metrics`."""
    root: Any = yaml.compose(text, Loader=_LOADER)
    if root.flow_style:
        # a file in braces has no lines to keep
        rest = {key: value for key, value in yaml.safe_load(text).items() if key != KEY}
        text, standing = yaml.safe_dump(rest, sort_keys=False, allow_unicode=True), ()
        root = yaml.compose(text, Loader=_LOADER)
    layout = _layout(text, root, standing)
    known = {entry.metric.id: entry for entry in layout.entries}
    pieces = [
        _metric_lines(metric, known.get(metric.id), text, layout, is_first=number == 0)
        for number, metric in enumerate(metrics)
    ]
    return layout.head + "".join(pieces) + layout.tail


def _metric_lines(
    metric: Metric, before: _MetricEntry | None, text: str, layout: _FileLayout, *, is_first: bool
) -> str:
    if before is None or not _is_edit(before.metric, metric):
        return ("" if is_first else layout.line_end) + _new_lines(metric, layout)
    # the blank line between two metrics belongs above the second
    lead = before.lead.lstrip("\r\n") if is_first else before.lead
    lines = text[before.begin : before.end]
    for begin, end, new in sorted(_changes(text, before, metric, layout), reverse=True):
        lines = lines[: begin - before.begin] + new + lines[end - before.begin :]
    return lead + lines + (layout.line_end if before.node.flow_style else "")


def _is_edit(before: Metric, after: Metric) -> bool:
    """Whether it is the same metric, changed. Ids are reassigned, so they cannot tell."""
    return before.name == after.name or before.definition == after.definition


def _values(metric: Metric) -> dict[str, _Value]:
    return {
        "id": metric.id,
        "name": metric.name,
        "type": str(metric.track),
        "definition": metric.definition,
        "examples": metric.examples,
        "when": metric.when.value,
    }


def _new_lines(metric: Metric, layout: _FileLayout) -> str:
    values = _values(metric)
    if not metric.examples:
        del values["examples"]
    if metric.when is When.ANYWHERE:
        del values["when"]
    margin = " " * layout.column
    written = _fields_text(values, layout.column + _STEP, layout.offset, layout.line_end)
    return f"{margin}- {written.lstrip()}"


def _changes(
    text: str, before: _MetricEntry, after: Metric, layout: _FileLayout
) -> Iterator[tuple[int, int, str]]:
    """Where text begins and ends that gives way, and what comes in its place."""
    old, new = _values(before.metric), _values(after)
    pairs = {key.value: (key, value) for key, value in before.node.value}
    column: int = before.node.start_mark.column
    for key in new:
        if old[key] == new[key]:
            continue
        if before.node.flow_style:
            field = f"{key}: {_flow_text(new[key])}"
        else:
            field = _field_text(key, new[key], column, layout.offset, layout.line_end)
        if key in pairs:
            yield pairs[key][0].start_mark.index, _end_of_value(text, pairs[key][1]), field
        elif before.node.flow_style:
            yield before.end - 1, before.end - 1, f", {field}"
        else:
            break_before = "" if text[: before.end].endswith("\n") else layout.line_end
            whole = f"{break_before}{' ' * column}{field}{layout.line_end}"
            yield before.end, before.end, whole


def _layout(text: str, root: yaml.MappingNode, standing: Sequence[Metric]) -> _FileLayout:
    line_end = "\r\n" if "\r\n" in text else "\n"
    key, value = next(((k, v) for k, v in root.value if k.value == KEY), (None, None))
    margin = root.start_mark.column
    offset = _dash_offset(root, key, value)
    style = (margin + offset, offset, line_end)
    if key is None or value is None:
        head, tail = _cut_at_end(text, root, line_end)
        head += f"{' ' * margin}{KEY}:{line_end}"
        return _FileLayout(head, (), tail, *style)
    if isinstance(value, yaml.SequenceNode) and not value.flow_style:
        return _FileLayout(*_cut_around_lines(text, value, standing), *style)
    head, tail = _cut_around_value(text, value, line_end)
    dash = " " * (margin + offset) + "- "
    entries = [
        _MetricEntry(metric, node, dash, node.start_mark.index, node.end_mark.index)
        for metric, node in zip(standing, value.value if standing else (), strict=True)
    ]
    return _FileLayout(head, tuple(entries), tail, *style)


def _cut_at_end(text: str, root: yaml.MappingNode, line_end: str) -> tuple[str, str]:
    """Cut after the last key, adding a blank line unless it would become part of the value."""
    end = root.end_mark.index
    head = text[:end]
    if not head.endswith("\n"):
        head += line_end
    return (head if _keeps_line_ends(text, _last_leaf(root)) else head + line_end), text[end:]


def _cut_around_value(text: str, value: yaml.Node, line_end: str) -> tuple[str, str]:
    """Cut around `[]`, `null`, nothing, or a list in brackets; a comment beside it stays."""
    end = value.end_mark.index
    next_line = _end_of_line(text, end)
    comment = text[end:next_line].rstrip()
    head = text[: value.start_mark.index].rstrip()
    return head + comment + line_end, text[next_line:]


def _cut_around_lines(
    text: str, value: yaml.SequenceNode, standing: Sequence[Metric]
) -> tuple[str, tuple[_MetricEntry, ...], str]:
    dash = re.compile(rf"^ {{{value.start_mark.column}}}-(?=\s)", re.MULTILINE)
    first = end = text.rfind("\n", 0, value.start_mark.index) + 1
    entries = []
    for node, metric in zip(value.value, standing, strict=True):
        match = dash.search(text, end)
        begin = match.start() if match else end
        lead, end = text[end:begin], _end_of_content(text, node)
        entries.append(_MetricEntry(metric, node, lead, begin, end))
    return text[:first], tuple(entries), text[end:]


def _end_of_content(text: str, node: yaml.Node) -> int:
    """The end of the last line of a value; comments below it are not part of it."""
    leaf = _last_leaf(node)
    if _keeps_line_ends(text, leaf):
        end: int = leaf.end_mark.index
        return end
    return _end_of_line(text, _end_of_value(text, leaf))


def _end_of_value(text: str, node: yaml.Node) -> int:
    leaf = _last_leaf(node)
    end: int = leaf.end_mark.index
    return len(text[:end].rstrip()) if _is_block_text(leaf) else end


def _end_of_line(text: str, index: int) -> int:
    newline = text.find("\n", index)
    return len(text) if newline < 0 else newline + 1


def _last_leaf(node: yaml.Node) -> Any:
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node


def _keeps_line_ends(text: str, leaf: Any) -> bool:
    """Whether it is a block scalar that includes the blank lines below it (`|+`)."""
    header = text[leaf.start_mark.index :].split("\n", 1)[0].split("#")[0]
    return _is_block_text(leaf) and "+" in header


def _is_block_text(leaf: Any) -> bool:
    return isinstance(leaf, yaml.ScalarNode) and leaf.style in {"|", ">"}


def _dash_offset(root: yaml.MappingNode, key: yaml.Node | None, value: yaml.Node | None) -> int:
    """The offset of the dashes of this file's metrics, or else of its first list, or else two."""
    own = [(key, value)] if key is not None and value is not None else []
    for name, node in [*own, *_pairs(root)]:
        if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
            return max(0, node.start_mark.column - name.start_mark.column)
    return _STEP


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, value
            yield from _pairs(value)
    elif isinstance(node, yaml.SequenceNode):
        for member in node.value:
            yield from _pairs(member)


def _fields_text(values: Mapping[str, _Value], column: int, offset: int, line_end: str) -> str:
    """A mapping in lines, each to its end."""
    margin = " " * column
    fields = (_field_text(key, value, column, offset, line_end) for key, value in values.items())
    return "".join(f"{margin}{field}{line_end}" for field in fields)


def _field_text(key: str, value: _Value, column: int, offset: int, line_end: str) -> str:
    """A key in this column with its value, whose further lines are indented."""
    if isinstance(value, str):
        return f"{key}: {_scalar_text(value, column + _STEP, line_end)}"
    if not value:
        return f"{key}: []"
    place = column + offset
    members = (f"- {_scalar_text(member, place + _STEP, line_end)}" for member in value)
    return line_end.join([f"{key}:", *(" " * place + member for member in members)])


def _flow_text(value: _Value) -> str:
    """A value within braces, where nothing can be folded."""
    if isinstance(value, str):
        return _quoted(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _scalar_text(text: str, indent: int, line_end: str = "\n") -> str:
    """Text in the style in which a person would like to read it; further lines are indented."""
    if _NEEDS_ESCAPES.search(text) or _is_no_text(text):
        return _quoted(text)
    if "\n" in text:
        body = text.removesuffix("\n")
        # a block that begins with a blank, or ends with blank lines, needs indicators that are hard
        # to read
        if text[0].isspace() or body.endswith((" ", "\n")):
            return _quoted(text)
        lines = ["|" if body != text else "|-", *body.split("\n")]
    elif len(text) > _LINE_LENGTH and text == " ".join(text.split()):
        folded = wrap(text, _LINE_LENGTH, break_long_words=False, break_on_hyphens=False)
        lines = [">-", *folded]
    else:
        plain: str = yaml.safe_dump(text, width=_NO_LINE, allow_unicode=True)
        return plain.removesuffix("...\n").rstrip("\n")
    return f"{line_end}{' ' * indent}".join(lines).replace(f"{' ' * indent}{line_end}", line_end)


def _is_no_text(text: str) -> bool:
    """Whether YAML would read it as something else than text without quotes."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return tag != "tag:yaml.org,2002:str"


def _quoted(text: str) -> str:
    # a text of JSON is one of YAML, but for the signs that YAML cannot hold
    quoted = json.dumps(text, ensure_ascii=False)
    return _NEEDS_ESCAPES.sub(lambda sign: f"\\u{ord(sign[0]):04x}", quoted)


def metric_text(metric: Metric) -> str:
    """The parts of a metric that a person may change, below its id, as YAML."""
    values = _values(metric)
    names = ("id", "name", "type", "when", "definition", "examples")
    return _fields_text({name: values[name] for name in names}, 0, _STEP, "\n")


def scenario_text(scenario: Scenario) -> str:
    """The parts of a scenario that a person may change, below its id, as YAML. A variant's
    demographic values, which cannot be changed, are comments above."""
    values = {
        "id": scenario.id,
        "persona": scenario.persona,
        "user_goal": scenario.user_goal,
        "latent_adversarial_goal": scenario.latent_adversarial_goal,
    }
    landmarks = "".join(
        f"  - turn: {landmark.turn}\n    instruction: {_scalar_text(landmark.instruction, 6)}\n"
        for landmark in scenario.landmarks
    )
    # on one line each: a line end in a value would end the comment
    comments = (
        " ".join(f"{axis}: {value}".split()) for axis, value in scenario.demographic.items()
    )
    whole = "".join(f"# {line}\n" for line in comments) + _fields_text(values, 0, _STEP, "\n")
    whole += f"landmarks:\n{landmarks}" if landmarks else "landmarks: []\n"
    if scenario.target_system_prompt is not None:
        whole += f"target_system_prompt: {_scalar_text(scenario.target_system_prompt, _STEP)}\n"
    return whole


T = TypeVar("T", bound=BaseModel)


class LandmarkShape(Shape):
    turn: int = Field(ge=1, description="the number of a turn, from 1")
    instruction: Words = Field(description="what the person does then")


class ScenarioShape(Shape):
    """A scenario without its demographic values."""

    id: Words = Field(description="the id as it was")
    persona: Words = Field(description="who the person is, as in `You are …`")
    user_goal: Words = Field(description="what they openly want")
    latent_adversarial_goal: Words = Field(description="what they are really after")
    landmarks: Listed[LandmarkShape] = Field(
        default=(), description="a list, each with a `turn` and an `instruction`"
    )
    target_system_prompt: Words | None = Field(default=None, description="text")


def metric_from(text: str, before: Metric, path: Path) -> Metric:
    """The edited metric; faults name `path`. Raises `InputError` with all of them."""
    document = parse_yaml(text, path)
    return metric_of_shape(_validated(document, MetricShape, before.id))


def scenario_from(text: str, before: Scenario, path: Path, *, turns: int) -> Scenario:
    """The edited scenario, for conversations of `turns` turns. Raises `InputError` with all
    faults."""
    document = parse_yaml(text, path)
    shape = _validated(document, ScenarioShape, before.id)
    landmarks = tuple(Landmark(landmark.turn, landmark.instruction) for landmark in shape.landmarks)
    if problems := list(_out_of_order(document, landmarks, turns)):
        raise InputError(problems)
    return replace(
        before,
        persona=shape.persona,
        user_goal=shape.user_goal,
        latent_adversarial_goal=shape.latent_adversarial_goal,
        landmarks=landmarks,
        target_system_prompt=shape.target_system_prompt,
    )


def _out_of_order(
    document: YamlDocument, landmarks: tuple[Landmark, ...], turns: int
) -> list[Problem]:
    problems = [
        document.problem(("landmarks", number, "turn"), f"expected a turn after {landmark.turn}")
        for number, (landmark, later) in enumerate(pairwise(landmarks), start=1)
        if later.turn <= landmark.turn
    ]
    if landmarks and landmarks[-1].turn > turns:
        at = ("landmarks", len(landmarks) - 1, "turn")
        problems.append(document.problem(at, f"expected at most {turns}: a conversation's turns"))
    return problems


def _validated(document: YamlDocument, shape: type[T], name: str) -> T:
    problems: list[Problem] = []
    written_id = document.data.get("id")
    if isinstance(written_id, str) and written_id != name:
        hint = "an id cannot be changed here: what was played from it is known by it"
        problems.append(
            document.problem(("id",), f"found {written_id!r}, expected {name!r}", hint=hint)
        )
    try:
        values = shape.model_validate(document.data)
    except ValidationError as error:
        problems += problems_of(error, document, shape)
    else:
        if not problems:
            return values
    raise InputError(in_file_order(problems))
