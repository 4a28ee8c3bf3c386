"""What tests start: a process, a terminal, the whole app, a run. Read from their source, so that
none can forget to say so; where those with a process are left out, the others are held to it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
STARTERS: Final = {
    "process": frozenset({"subprocess", "multiprocessing", "pty", "fork", "forkpty"}),
    "app": frozenset({"run_test"}),
    "run": frozenset({".run"}),
}
"""A name of these in a test, or in what it uses of the tests, stands for what its mark says."""
RUNNING: Final = frozenset({"run", "demo", "simulate", "evaluate", "validate", "repair"})
"""Commands that carry out a run or make a store anew, where a test gives them to `crosswind`."""
_KEPT: Final = "crosswind/marks"
EVENTS: Final = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "pty.spawn"}
)


class Definition(NamedTuple):
    path: Path
    name: str


class Module(NamedTuple):
    definitions: dict[str, frozenset[str]]
    """The names that each function, class and constant uses."""
    imported: dict[str, Definition]
    """What it has from other modules of the tests."""


@cache
def _module(path: Path) -> Module:
    definitions: dict[str, frozenset[str]] = {}
    imported: dict[str, Definition] = {}
    for node in ast.parse(path.read_bytes()).body:
        inner = list(ast.walk(node))
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                definitions[name] = frozenset() if _is_shared(node) else frozenset(_names(inner))
            case _:
                pass
        for one in inner:
            if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("tests"):
                imported.update(_imported(one))
    return Module(definitions, imported)


def _is_shared(node: ast.stmt) -> bool:
    """What a session makes once, for whichever test needs it first."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(one, ast.keyword)
        and one.arg == "scope"
        and isinstance(one.value, ast.Constant)
        and one.value.value == "session"
        for decorator in node.decorator_list
        for one in ast.walk(decorator)
    )


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for one in nodes:
        match one:
            case ast.Attribute(value=ast.Name(id="asyncio" | "subprocess"), attr="run"):
                pass  # `ast.walk` comes to the module, too
            case ast.Attribute(attr="run"):
                yield ".run"
            case ast.Call(
                func=ast.Name(id="crosswind"), args=[_, ast.Constant(value=str(word)), *_]
            ):
                if word in RUNNING:
                    yield ".run"
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (name.name for name in names)
            case ast.Constant(value=str() as text):
                yield text  # as `usefixtures` names one
            case _:
                pass


def _imported(node: ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
    home = ROOT.joinpath(*(node.module or "").split("."))
    for one in node.names:
        whole = home / f"{one.name}.py"
        is_module = whole.exists()
        yield (
            one.asname or one.name,
            Definition(whole, "") if is_module else Definition(home.with_suffix(".py"), one.name),
        )


def _homes(path: Path, name: str) -> Iterator[Definition]:
    """Where a name that a module uses may be defined: there, where it is imported from, or as a
    fixture in a `conftest.py` above."""
    module = _module(path)
    if name in module.definitions:
        yield Definition(path, name)
    elif name in module.imported:
        yield module.imported[name]
    else:
        fixtures = (Definition(one, name) for one in _conftests(path.parent))
        yield from (one for one in fixtures if name in _module(one.path).definitions)


@cache
def _conftests(folder: Path) -> tuple[Path, ...]:
    above = [folder, *folder.parents]
    found = (one / "conftest.py" for one in above[: above.index(ROOT) + 1])
    return tuple(path for path in found if path.exists())


@cache
def _used(one: Definition) -> frozenset[str]:
    known = _module(one.path).definitions
    return known.get(one.name, frozenset()) if one.name else frozenset(known)


@cache
def _uses(one: Definition) -> frozenset[Definition]:
    return frozenset(home for each in _used(one) for home in _homes(one.path, each))


@cache
def marks(path: Path, name: str) -> frozenset[str]:
    """What a test starts, or a fixture, function, class or constant of the tests that it uses."""
    seen: set[Definition] = set()
    ahead = {Definition(path, name)}
    while ahead:
        seen.add(one := ahead.pop())
        ahead |= _uses(one) - seen
    named = frozenset[str]().union(*map(_used, seen))
    return frozenset(mark for mark, starters in STARTERS.items() if named & starters)


class KnownMarks:
    """`marks` as the cache of pytest keeps them, until any file of the tests changes: to read them
    takes about as long as to import all tests."""

    def __init__(self, cache: pytest.Cache | None) -> None:
        stats = ((path, path.stat()) for path in sorted((ROOT / "tests").rglob("*.py")))
        found = str([(str(path), one.st_mtime_ns, one.st_size) for path, one in stats])
        self._cache = cache
        self._version = sha256(found.encode()).hexdigest()
        kept = cache.get(_KEPT, {}) if cache else {}
        fresh = kept.get("version") == self._version
        self._known: dict[str, list[str]] = kept["marks"] if fresh else {}
        self._new = False

    def of_test(self, path: Path, name: str) -> list[str]:
        key = f"{path}::{name}"
        if key not in self._known:
            self._known[key] = sorted(marks(path, name))
            self._new = True
        return self._known[key]

    def keep(self) -> None:
        if self._cache and self._new:
            self._cache.set(_KEPT, {"version": self._version, "marks": self._known})


class Watch:
    """Hears of each process that this one starts; what listens to the interpreter cannot be taken
    away again, so there is one."""

    def __init__(self) -> None:
        self.started: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if (
            event in EVENTS and details[0] != "uname"
        ):  # as `platform` asks it, for a client's header
            self.started.append(f"{event} {details[:2]}")
