"""No text of a model, a file or a server reaches the screen but through the display boundary.

The source of the app is walked. Where something is drawn (a piece of a line, a passage, a rule, a
title, a notice), whatever is read from a field that may hold foreign text must stand inside a call
that cleans it. What a variable was given is looked up in the function it stands in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

import tui

ROOT = Path(tui.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))

CLEANERS = {"clean", "display_text", "one_line"}
"""What makes a text fit to be drawn."""
HARMLESS = {
    "conversation_id",
    "len",
    "cell_len",
    "plural",
    "amount",
    "money",
    "percent",
    "duration",
    "rate",
    "interval_rate",
    "since",
    "bar",
    "verdict",
    "relation",
    "index",
    "is_script",
    "played_by",
    "why_not_found",
}
"""What gives words or numbers of our own, whatever it is given."""
FOREIGN = {
    "text",
    "thought",
    "landmark",
    "instruction",
    "reason",
    "reasoning",
    "detail",
    "justification",
    "unscored",
    "persona",
    "user_goal",
    "latent_adversarial_goal",
    "target_system_prompt",
    "demographic",
    "definition",
    "snippet",
    "judge",
    "problem",
    "last_problem",
    "notices",
    "why",
    "title",
    "model",
    "label",
    "host",
    "unit",
    "target",
    "target_id",
    "scenario_id",
    "metric_id",
    "benchmark",
    "key",
    "id",
    "name",
}
"""Fields that may hold what somebody else wrote."""
HANDED_ON = {"detail", "judge", "justification", "reason", "snippet", "thought", "unscored", "why"}
"""Parameters of these names are foreign. One that is called `text` is fit to be drawn: whoever
hands a text on cleans it first."""
OURS = {
    "binding",
    "deed",
    "hint",
    "offer",
    "place",
    "ours",
    "theme",
    "ended",
    "piece",
    "choice",
    "stage_view",
    "entry",
    "mark",
    "block",
    "rule",
    "passage",
    "view",
    "self",
}
"""Variables whose fields are our own words, or were cleaned when they were made."""
VIEWS = {"HeatRow", "TargetView"}
"""What a widget is given whole, and draws as it is."""
WITHIN = {
    "state/explanations.py": {"_rate()"},
    "state/benchmark_summary.py": {"names", "name_width"},  # cleaned; cells
    "state/board.py": {"_stands_still()"},
    "results/leaderboard.py": {"_worded()", "_name_width()"},
    "screens/benchmarks.py": {"_rate()"},
    "screens/calls.py": {"label"},
    "screens/conversation.py": {"label"},
    "text/blocks.py": {"laid.block"},
    "text/ink.py": {"fill"},
    "screens/scenario.py": {"label", "state"},
    "state/verdicts.py": {"result"},  # counts
    "widgets/grids.py": {"row"},
    "text/plot.py": {"curve"},
    "widgets/target_board.py": {"stage", "target"},
    "text/wrap.py": {"heading"},
}
"""Variables that hold a view, a piece or a word of ours, and functions that give one."""
DRAWS = {
    *VIEWS,
    "Cell",
    "Piece",
    "Passage",
    "Rule",
    "notify",
    "Content",
    "Text",
    "Hit",
    "DiscoveryHit",
    "to_terminal",
    "update",
    "exit",
}
WIDGETS = {
    "Static",
    "Label",
    "Button",
    "Markdown",
    "MarkdownViewer",
    "Log",
    "RichLog",
    "DataTable",
    "OptionList",
    "SelectionList",
    "ListView",
    "Select",
    "Tree",
    "TextArea",
    "Collapsible",
    "TabbedContent",
    "Header",
    "Footer",
    "Pretty",
}
"""Textual's own, each of which lets control characters through."""
MARKUP = {"from_markup", "from_ansi", "render_markup"}
TITLES = {"border_title", "border_subtitle", "tooltip", "sub_title"}
ROOMS = {"textual.widgets", "textual.content", "rich.text"}
"""Where those live; what is taken from there is taken by name."""
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__", "_driver"}
"""What reaches the terminal past the picture."""


DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def foreign(node: ast.AST, tainted: AbstractSet[str], ours: AbstractSet[str]) -> bool:
    """Whether a value may hold foreign text that nothing has cleaned."""
    if isinstance(node, ast.Call):
        name = name_of(node)
        if name in CLEANERS | HARMLESS:
            return False
        if name in {"getattr", "attrgetter"} and foreign_words(node):
            return True
        if isinstance(node.func, ast.Name) and f"{name}()" in tainted - ours:
            return True
        if isinstance(node.func, ast.Name) and f"{name}()" in ours:
            return False
        held = isinstance(node.func, ast.Attribute) and foreign(node.func.value, tainted, ours)
        if name == "get":  # what is looked up is not what it is looked up by
            return held
        return held or any(foreign(part, tainted, ours) for part in parts(node))
    if isinstance(node, ast.Attribute):
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "self":
            return f"self.{node.attr}" in tainted
        if ast.unparse(owner) in ours:
            return False
        return node.attr in FOREIGN or foreign(owner, tainted, ours)
    if isinstance(node, ast.Name):
        return node.id in tainted and node.id not in ours
    if isinstance(node, ast.Compare):
        return False
    if isinstance(node, ast.DictComp):
        return foreign(node.value, tainted, ours)
    if isinstance(node, ast.Dict):
        return any(foreign(each, tainted, ours) for each in node.values)
    if isinstance(node, ast.IfExp):
        return any(foreign(each, tainted, ours) for each in (node.body, node.orelse))
    if isinstance(node, ast.Subscript):
        return foreign(node.value, tainted, ours)
    return any(foreign(each, tainted, ours) for each in ast.iter_child_nodes(node))


def foreign_words(call: ast.Call) -> bool:
    """Whether it names a field that may hold foreign text."""
    return any(
        isinstance(argument, ast.Constant) and argument.value in FOREIGN for argument in call.args
    )


def parts(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def texts(call: ast.Call) -> list[ast.expr]:
    """What a call draws: of a passage not the key that it is known by, of a piece not its ink."""
    match name_of(call):
        case "Piece" | "Cell" | "notify" | "Content" | "Text" | "to_terminal" | "update":
            named = [each.value for each in call.keywords if each.arg in {"text", "message", None}]
            return [*call.args[:1], *named]
        case "Hit" | "DiscoveryHit":
            return [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "help")]
        case "exit":
            return [each.value for each in call.keywords if each.arg == "message"]
        case "HeatRow" | "TargetView":
            return parts(call)
        case _:
            named = [each.value for each in call.keywords if each.arg in {"text", "note", "title"}]
            return [*call.args[1:3], *named]


def tainted_names(
    function: ast.AST, ours: AbstractSet[str], known: AbstractSet[str] = frozenset()
) -> set[str]:
    """Variables that were given foreign text in this function, as often as it takes to settle."""
    tainted = {parameter.arg for parameter in parameters(function)} & HANDED_ON | known
    while True:
        before = len(tainted)
        for node in ast.walk(function):
            for target, value in given(node):
                if foreign(value, tainted, ours):
                    tainted |= names_in(target)
            if isinstance(node, ast.MatchClass):
                patterns = zip(node.kwd_attrs, node.kwd_patterns, strict=True)
                tainted |= {
                    each.name
                    for attr, each in patterns
                    if attr in FOREIGN and isinstance(each, ast.MatchAs) and each.name
                }
        if len(tainted) == before:
            return tainted


def given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is given a value here, and which."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                match target, value:
                    case ast.Tuple(elts=ones), ast.Tuple(elts=others) if len(ones) == len(others):
                        yield from zip(ones, others, strict=True)
                    case _:
                        yield target, value
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.Call(func=ast.Attribute(value=target, attr="append" | "extend" | "insert")):
            for value in node.args:
                yield target, value


def names_in(target: ast.expr) -> set[str]:
    """Of what is given a value: variables, and fields of `self`."""
    match target:
        case ast.Name(id=name):
            return {name}
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return {f"self.{attr}"}
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            return names_in(inner)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return set[str]().union(*map(names_in, elements))
        case _:
            return set()


def shared(tree: ast.Module, ours: AbstractSet[str]) -> set[str]:
    """What is foreign in the whole module: fields of `self`, and functions that give such text."""
    known: set[str] = set()
    while True:
        before = len(known)
        for function in functions(tree):
            tainted = tainted_names(function, ours, known)
            known |= {each for each in tainted if each.startswith("self.")}
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                returned = (
                    each.value for each in ast.walk(function) if isinstance(each, ast.Return)
                )
                if any(each is not None and foreign(each, tainted, ours) for each in returned):
                    known.add(f"{function.name}()")
        if len(known) == before:
            return known


def parameters(function: ast.AST) -> list[ast.arg]:
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Each function and method, and what stands outside of them."""
    found: list[ast.AST] = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    yield from found
    outside = [node for node in tree.body if not isinstance(node, DEFINED)]
    yield ast.Module(outside, [])


def faults(source: str, *, ours: AbstractSet[str] = frozenset()) -> list[str]:
    """Every place where foreign text could be drawn as it is."""
    ours = OURS | ours
    tree = ast.parse(source)
    wrong: list[str] = []
    known = shared(tree, ours)
    for function in functions(tree):
        tainted = tainted_names(function, ours, known)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and name_of(node) in DRAWS:
                wrong += [
                    f"{node.lineno}: {ast.unparse(text)}"
                    for text in texts(node)
                    if foreign(text, tainted, ours)
                ]
    for node in ast.walk(tree):
        match node:
            case ast.Call() if name_of(node) in MARKUP:
                wrong.append(f"{node.lineno}: markup")
            case ast.Call() if name_of(node) == "Content":
                wrong.append(f"{node.lineno}: Content outside of the boundary")
            case ast.Call() if name_of(node) == "notify" and not _without_markup(node):
                wrong.append(f"{node.lineno}: notify reads markup")
            case ast.alias(name=name, asname=str()) if name in DRAWS | CLEANERS | HARMLESS:
                wrong.append(f"{node.lineno}: {name} under another name")
            case ast.alias(name=name) if name in ROOMS:
                wrong.append(f"{node.lineno}: {name} as a whole")
            case ast.ImportFrom(module="textual") if {a.name for a in node.names} & {
                "widgets",
                "content",
            }:
                wrong.append(f"{node.lineno}: a room as a whole")
            case ast.FunctionDef(name=name) if name in CLEANERS:
                wrong.append(f"{node.lineno}: another {name}")
            case ast.Call() if name_of(node) == "print":
                wrong.append(f"{node.lineno}: print")
            case ast.Call(func=ast.Attribute(attr="write", value=owner)) if (
                isinstance(owner, ast.Attribute) and owner.attr in STREAMS
            ):
                wrong.append(f"{node.lineno}: past the picture")
            case ast.Call() if name_of(node) == "setattr" and any(
                isinstance(argument, ast.Constant) and argument.value in TITLES
                for argument in node.args
            ):
                wrong.append(f"{node.lineno}: a title")
            case ast.ImportFrom(module=str(module)) if module.startswith("textual.widgets"):
                names = {each.name for each in node.names}
                wrong += [f"{node.lineno}: {name}" for name in sorted(names & WIDGETS)]
            case ast.Attribute(attr=attr, ctx=ast.Store()) if attr in TITLES:
                wrong.append(f"{node.lineno}: {attr}")
    return sorted(set(wrong))


def _without_markup(call: ast.Call) -> bool:
    return any(
        each.arg == "markup" and isinstance(each.value, ast.Constant) and each.value.value is False
        for each in call.keywords
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_drawn_was_cleaned(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    ours = WITHIN.get(name, set())
    assert faults(path.read_text("utf-8"), ours=ours) == []


@pytest.mark.parametrize(
    "source",
    [
        "Piece(message.text)",
        "Piece(f'{row.judge} says')",
        "Piece(' ' + pad(unit.reason, 10))",
        "Passage('key', 'why', unit.reason)",
        "Passage('key', 'why', ink=x, text=unit.reason)",
        "Rule('key', info.title, 'note')",
        "def f(row):\n    said = row.justification\n    again = said.strip()\n    Piece(again)",
        "def f(row):\n    said = ''\n    said += row.text\n    Piece(said)",
        "Piece(str(row.key))",
        "Piece(one_line(row.a) + row.text if x else '')",
        "app.notify(text)",
        "app.notify(clean(text), markup=True)",
        "Content(text)",
        "from tui.text.ink import Piece as P",
        "import textual.widgets",
        "from textual import widgets",
        "Piece(text=row.text)",
        "Piece(**{'text': row.text})",
        "Piece(getattr(row, 'text'))",
        "def f(row):\n    a, b = row.text, 1\n    Piece(a)",
        "def f(row):\n    a: str = row.text\n    Piece(a)",
        "def f(rows):\n    for a in [row.text for row in rows]:\n        Piece(a)",
        "def f(rows):\n    return [Piece(a) for a in [row.text for row in rows]]",
        "def f(row):\n    with around(row.text) as a:\n        Piece(a)",
        "def f(row):\n    match row:\n        case Row(text=a):\n            Piece(a)",
        "def f(row):\n    found = []\n    found.append(row.text)\n    Piece(found[0])",
        "def f(row):\n    found = {}\n    found['a'] = row.text\n    Piece(found['a'])",
        "def g(row):\n    return row.text\ndef f(row):\n    Piece(g(row))",
        "class A:\n def a(self, row):\n  self._a = row.text\n def b(self):\n  Piece(self._a)",
        "def clean(text):\n    return text",
        "def f():\n    pass\nPiece(row.text)",
        "setattr(widget, 'border_title', 'x')",
        "widget.update(row.text)",
        "app.exit(message=row.text)",
        "app.to_terminal(row.text)",
        "app._driver.write(text)",
        "sys.stderr.write(text)",
        "print(text)",
        "Hit(1, display_text(row.id), act, help=row.benchmark)",
        "Text.from_markup(text)",
        "from textual.widgets import Input, Static",
        "widget.border_title = 'x'",
    ],
)
def test_a_way_around_the_boundary_is_found(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "Piece(one_line(message.text))",
        "Piece(' ' + pad(one_line(unit.reason), 10))",
        "Passage(('quote', row.text), 'quote', display_text(row.text), Ink.BAD)",
        "Piece('yes' if row.text == 'x' else 'no')",
        "def f(row):\n    said = display_text(row.justification)\n    Piece(said)",
        "app.notify(clean(text), markup=False)",
        "Piece(plural(len(row.text), 'word'))",
    ],
)
def test_what_is_cleaned_passes(source: str) -> None:
    assert not faults(source)
