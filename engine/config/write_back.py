"""Writes metrics into a `benchmark.yaml` and leaves all its other text as it was; and turns
a metric or a scenario into YAML for a person's editor, which `review_shapes` reads back.

Only the lines of metrics that change are rewritten: an unchanged metric keeps its lines, and an
edited one keeps its comments and unknown keys. Dumping the whole file, even with a library that
keeps comments, would change its line breaks and quotes.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError as RoundTripError
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    FoldedScalarString,
    LiteralScalarString,
)

from engine.benchmark import Metric, Scenario, When, name_fault
from engine.config.benchmark_file import Definition, definition_of, load_definition
from engine.config.yaml_text import parse_yaml
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


Style = Callable[[str], Any]
"""Gives a text its YAML style. Within braces only quotes work: nothing can be folded there."""


@dataclass(frozen=True, slots=True)
class _MetricEntry:
    """One metric as it stands in the file."""

    metric: Metric
    lead: str
    """Blank lines and comments above it."""
    lines: str
    """Its own lines, to the last line end."""


@dataclass(frozen=True, slots=True)
class _FileLayout:
    """A text split around its metrics, and its style."""

    head: str
    """The text up to the first metric's own lines."""
    entries: tuple[_MetricEntry, ...]
    tail: str
    margin: int
    """The indentation of the file's keys."""
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


def text_with_metrics(text: str, standing: Sequence[Metric], metrics: Sequence[Metric]) -> str:
    """`text` with its metrics, which are `standing`, replaced by `metrics`.

    Raises ValueError where the text is written in a style that this cannot preserve.
    """
    try:
        return _with_metrics(text, standing, metrics)
    except (yaml.YAMLError, RoundTripError) as error:
        raise ValueError("the parts of this file cannot be read by themselves") from error


def _with_metrics(text: str, standing: Sequence[Metric], metrics: Sequence[Metric]) -> str:
    # two libraries: PyYAML knows the position of each node but drops comments, ruamel.yaml keeps
    # comments but does not know positions
    root = yaml.compose(text, Loader=_LOADER)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return _dumped_whole(text, metrics)
    layout = _layout(text, root, standing)
    known = {entry.metric.id: entry for entry in layout.entries}
    pieces = [
        _metric_text(metric, known.get(metric.id), layout, is_first=number == 0)
        for number, metric in enumerate(metrics)
    ]
    return layout.head + "".join(pieces) + layout.tail


def _dumped_whole(text: str, metrics: Sequence[Metric]) -> str:
    """The whole file dumped again, for one in braces, which has no lines to keep."""
    whole = round_trip(_STEP)
    data = whole.load(text)
    data[KEY] = [_new_node(metric, DoubleQuotedScalarString) for metric in metrics]
    written = io.StringIO()
    whole.dump(data, written)
    return written.getvalue()


def _metric_text(
    metric: Metric, before: _MetricEntry | None, layout: _FileLayout, *, is_first: bool
) -> str:
    if before is None or not _is_edit(before.metric, metric):
        return ("" if is_first else layout.line_end) + _node_text(
            _new_node(metric, scalar_text), layout
        )
    # the blank line between two metrics belongs above the second
    lead = before.lead.lstrip("\r\n") if is_first else before.lead
    if before.metric == metric:
        # unchanged: keeps a person's line breaks and quotes
        return lead + before.lines
    [node] = round_trip(layout.offset).load(before.lines.replace("\r\n", "\n"))
    _update(node, before.metric, metric)
    return lead + _node_text(node, layout)


def _is_edit(before: Metric, after: Metric) -> bool:
    """Whether it is the same metric, changed. Ids are reassigned, so they cannot tell."""
    return before.name == after.name or before.definition == after.definition


def _layout(text: str, root: yaml.MappingNode, standing: Sequence[Metric]) -> _FileLayout:
    line_end = "\r\n" if "\r\n" in text else "\n"
    key, value = next(((k, v) for k, v in root.value if k.value == KEY), (None, None))
    margin = root.start_mark.column
    offset = _dash_offset(root, key, value)
    if key is None or value is None:
        head, tail = _cut_at_end(text, root, line_end)
        head += f"{' ' * margin}{KEY}:{line_end}"
        return _FileLayout(head, (), tail, margin, offset, line_end)
    if isinstance(value, yaml.SequenceNode) and not value.flow_style:
        return _FileLayout(*_cut_around_lines(text, value, standing), margin, offset, line_end)
    head, tail = _cut_around_value(text, value, line_end)
    indent = " " * (margin + offset)
    entries = [
        _MetricEntry(metric, "", f"{indent}- {_text_of(text, node)}{line_end}")
        for metric, node in zip(standing, value.value if standing else (), strict=True)
    ]
    return _FileLayout(head, tuple(entries), tail, margin, offset, line_end)


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
        entries.append(_MetricEntry(metric, lead, text[begin:end]))
    return text[:first], tuple(entries), text[end:]


def _end_of_content(text: str, node: yaml.Node) -> int:
    """The end of the last line of a value; comments below it are not part of it."""
    leaf = _last_leaf(node)
    end: int = leaf.end_mark.index
    if _is_block_text(leaf):
        if _keeps_line_ends(text, leaf):
            return end
        end = len(text[:end].rstrip())
    return _end_of_line(text, end)


def _end_of_line(text: str, index: int) -> int:
    newline = text.find("\n", index)
    return len(text) if newline < 0 else newline + 1


def _text_of(text: str, node: yaml.Node) -> str:
    return text[node.start_mark.index : node.end_mark.index]


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


def round_trip(offset: int) -> YAML:
    """A writer that indents the dashes of a list by `offset` and breaks no line."""
    yaml_library = YAML()
    yaml_library.preserve_quotes = True
    # by default ruamel.yaml folds plain text at 80 columns
    yaml_library.width = _NO_LINE
    yaml_library.indent(mapping=_STEP, sequence=offset + _STEP, offset=offset)
    return yaml_library


def _node_text(node: Any, layout: _FileLayout) -> str:
    written = io.StringIO()
    round_trip(layout.offset).dump({KEY: [node]}, written)
    # ruamel.yaml indents a list only below a key, so it gets one, whose line is dropped here, as is
    # the mark that it puts at the end of a document with an open scalar
    _, *lines = written.getvalue().removesuffix("...\n").splitlines()
    margin = " " * layout.margin
    return "".join((margin + line if line else "") + layout.line_end for line in lines)


def _new_node(metric: Metric, style: Style) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": scalar_text(metric.id),
        "name": style(metric.name),
        "type": str(metric.track),
        "definition": style(metric.definition),
    }
    if metric.examples:
        node["examples"] = [style(example) for example in metric.examples]
    _put_when(node, metric)
    return node


def _put_when(node: Any, metric: Metric) -> None:
    if metric.when is not When.ANYWHERE:
        node["when"] = metric.when.value


def _update(node: Any, before: Metric, after: Metric) -> None:
    """Change what differs, in place, so that all else stays."""
    style: Style = DoubleQuotedScalarString if node.fa.flow_style() else scalar_text
    if before.name != after.name:
        node["name"] = style(after.name)
    if before.track is not after.track:
        node["type"] = str(after.track)
    if before.definition != after.definition:
        node["definition"] = style(after.definition)
    if before.examples != after.examples:
        node["examples"] = [style(example) for example in after.examples]
    if before.when is not after.when:
        node.pop("when", None)
        _put_when(node, after)


def scalar_text(text: str) -> Any:
    """Text in the style in which a person would like to read it."""
    if _NEEDS_ESCAPES.search(text) or _is_no_text(text):
        return DoubleQuotedScalarString(text)
    if "\n" in text:
        # a block that begins with a blank, or ends with blank lines, needs indicators that are hard
        # to read
        is_plain = not text[0].isspace() and not text.removesuffix("\n").endswith((" ", "\n"))
        return LiteralScalarString(text) if is_plain else DoubleQuotedScalarString(text)
    if len(text) <= _LINE_LENGTH or text != " ".join(text.split()):
        return text
    return _folded_scalar(text)


def _is_no_text(text: str) -> bool:
    """Whether YAML would read it as something else than text without quotes."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return tag != "tag:yaml.org,2002:str"


def _folded_scalar(text: str) -> Any:
    """One long line, folded at spaces; reading joins it again."""
    folded = FoldedScalarString(text)
    breaks, begin = [], 0
    for space in re.finditer(" ", text):
        following = text.find(" ", space.end())
        end = following if following >= 0 else len(text)
        if end - begin > _LINE_LENGTH:
            breaks.append(space.start())
            begin = space.end()
    folded.fold_pos = breaks
    return folded


def metric_text(metric: Metric) -> str:
    """The parts of a metric that a person may change, below its id, as YAML."""
    return _yaml_text(
        {
            "id": scalar_text(metric.id),
            "name": scalar_text(metric.name),
            "type": str(metric.track),
            "when": str(metric.when),
            "definition": scalar_text(metric.definition),
            "examples": [scalar_text(example) for example in metric.examples],
        }
    )


def scenario_text(scenario: Scenario) -> str:
    """The parts of a scenario that a person may change, below its id, as YAML. A variant's
    demographic values, which cannot be changed, are comments above."""
    values: dict[str, Any] = {
        "id": scalar_text(scenario.id),
        "persona": scalar_text(scenario.persona),
        "user_goal": scalar_text(scenario.user_goal),
        "latent_adversarial_goal": scalar_text(scenario.latent_adversarial_goal),
        "landmarks": [
            {"turn": landmark.turn, "instruction": scalar_text(landmark.instruction)}
            for landmark in scenario.landmarks
        ],
    }
    if scenario.target_system_prompt is not None:
        values["target_system_prompt"] = scalar_text(scenario.target_system_prompt)
    # on one line each: a line end in a value would end the comment
    comments = (
        " ".join(f"{axis}: {value}".split()) for axis, value in scenario.demographic.items()
    )
    return "".join(f"# {line}\n" for line in comments) + _yaml_text(values)


def _yaml_text(values: dict[str, Any]) -> str:
    written = io.StringIO()
    round_trip(2).dump(values, written)
    return written.getvalue()
