"""How the code is kept."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from tests.benchmarks.frame import Row

PROJECT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("engine", "tui")
LONG_FUNCTION, SMALL_MODULE = 50, 40
SENTENCE_WORDS: Final = 4
PRIVATE_NAMES: Final = Path("tui/services/textual_internals.py")
"""Where every private name of Textual is listed that the app needs."""
ALIAS: Final = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
"""The name of a class or an alias of a type; not that of a constant."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def functions(self) -> list[Function]:
        return [one for one in ast.walk(self.tree) if isinstance(one, Function)]

    @property
    def comments(self) -> int:
        return sum(line.lstrip().startswith("#") for line in self.lines)

    @property
    def types(self) -> Iterator[str]:
        """The classes and aliases of types that it defines."""
        for node in self.tree.body:
            match node:
                case ast.ClassDef(name=name):
                    yield name
                case ast.Assign(targets=[ast.Name(id=name)]):
                    yield from [name] if ALIAS.fullmatch(name) else []
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield from [name] if ALIAS.fullmatch(name) else []

    def imports(self) -> Iterator[tuple[ast.stmt, list[str]]]:
        """Each import, and what it may name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield node, [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node, [node.module, *(f"{node.module}.{one.name}" for one in node.names)]

    def lazy_imports(self) -> int:
        """Those that are carried out when a function is called."""
        inside = {id(node) for function in self.functions for node in ast.walk(function)}
        return sum(id(node) in inside for node, _ in self.imports())


def modules(root: Path, packages: tuple[str, ...] = PACKAGES) -> dict[str, Module]:
    found = {}
    for path in (path for package in packages for path in sorted((root / package).rglob("*.py"))):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path.read_text("utf-8"))
    return found


def length(function: Function) -> int:
    """Its lines, without its docstring."""
    assert function.end_lineno is not None
    match function.body[0]:
        case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
            return function.end_lineno - function.lineno - (last - first)
        case _:
            return function.end_lineno - function.lineno + 1


def circles(known: Mapping[str, Module]) -> list[list[str]]:
    """Groups of modules of which each imports every other, be it by way of others or late."""
    graph = {
        name: {one for _, names in module.imports() for one in names if one in known} - {name}
        for name, module in known.items()
    }
    reach = {name: _reached(graph, name) for name in graph}
    groups = {
        frozenset(one for one in reach[name] if name in reach[one])
        for name in graph
        if name in reach[name]
    }
    return sorted(sorted(group) for group in groups)


def _reached(graph: Mapping[str, set[str]], name: str) -> set[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        ahead += (new := graph[ahead.pop()] - found)
        found |= new
    return found


def shared_names(known: Mapping[str, Module]) -> list[str]:
    """Public names of classes and aliases that two modules or more define."""
    homes = defaultdict(set)
    for module in known.values():
        for name in module.types:
            if not name.startswith("_"):
                homes[name].add(module.name)
    return sorted(name for name, where in homes.items() if len(where) > 1)


def long_functions(known: Mapping[str, Module]) -> list[str]:
    return [
        f"{module.name}:{one.lineno} {one.name}, {length(one)} lines"
        for module in known.values()
        for one in module.functions
        if length(one) > LONG_FUNCTION
    ]


def pins_sentence(test: Function) -> bool:
    """Whether an assertion of it holds a text of `SENTENCE_WORDS` words or more; a word has a
    letter. What approval files hold stands in none."""
    return any(
        sum(any(map(str.isalpha, word)) for word in part.value.split()) >= SENTENCE_WORDS
        for one in ast.walk(test)
        if isinstance(one, ast.Assert)
        for part in ast.walk(one.test)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def private_names(root: Path) -> int:
    """How many private names of Textual the app reads, calls or overrides."""
    tree = ast.parse((root / PRIVATE_NAMES).read_text("utf-8"))
    listed = next(
        one.value
        for one in tree.body
        if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == "PRIVATE"
    )
    return sum(len(one.elts) for one in ast.walk(listed or tree) if isinstance(one, ast.Set))


def figures(root: Path) -> dict[str, str]:
    known = modules(root)
    lines = sum(len(one.lines) for one in known.values())
    comments = sum(one.comments for one in known.values())
    tests = list(modules(root, ("tests",)).values())
    return {
        "lines": f"{lines:,}",
        "files": str(len(known)),
        "lines of tests": f"{sum(len(one.lines) for one in tests):,}",
        f"functions of more than {LONG_FUNCTION} lines": str(len(long_functions(known))),
        "imports within a function": str(sum(one.lazy_imports() for one in known.values())),
        "circles of imports, with those within a function": str(len(circles(known))),
        "names of classes and aliases that two modules define": str(len(shared_names(known))),
        f"modules of fewer than {SMALL_MODULE} lines": str(
            # a package's `__init__` of a docstring is none
            sum(3 < len(one.lines) < SMALL_MODULE for one in known.values())
        ),
        "lines of comment": f"{comments / lines:.1%}",
        f"tests that pin a text of {SENTENCE_WORDS} words": str(
            sum(
                pins_sentence(one)
                for module in tests
                for one in module.functions
                if one.name.startswith("test_")
            )
        ),
        "private names of Textual": str(private_names(root)),
    }


def house(project: Path = PROJECT, *, names: bool = False) -> Iterator[Row]:
    """How the code is kept.

    Of `engine` and `tui`, but for the line that says otherwise. Lines hold blank ones and
    docstrings; a function's length holds no docstring. `--names` names what is counted one by one.
    """
    yield from (Row(what, found) for what, found in figures(project).items())
    if names:
        known = modules(project)
        yield from (Row("circle", ", ".join(one)) for one in circles(known))
        yield from (Row("defined twice", name) for name in shared_names(known))
        yield from (Row("long", one) for one in long_functions(known))
