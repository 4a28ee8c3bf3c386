"""What tests start: a process, a terminal, the whole app. Read from their source, so that none can
forget to say so; where those with a process are left out, the others are held to it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
STARTERS: Final = {
    "process": frozenset({"subprocess", "multiprocessing", "pty", "fork", "forkpty"}),
    "app": frozenset({"run_test"}),
}
"""A name of these in a test, or in what it uses of the tests, stands for what its mark says."""
EVENTS: Final = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "pty.spawn"}
)


class Definition(NamedTuple):
    path: Path
    name: str


@cache
def _definitions(path: Path) -> dict[str, frozenset[str]]:
    """The names that each function, class and constant of a module uses."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        used = frozenset(_names(node))
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found[name] = used
            case ast.ClassDef(name=name):
                found[name] = used
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = used
            case _:
                pass
    return found


def _names(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (name.name for name in names)
            case ast.Constant(value=str() as text):
                yield text  # as `usefixtures` names one
            case _:
                pass


@cache
def _imported(path: Path) -> dict[str, Definition]:
    """What a module has from other modules of the tests."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            home = ROOT.joinpath(*(node.module or "").split("."))
            for one in node.names:
                whole = home / f"{one.name}.py"
                found[one.asname or one.name] = (
                    Definition(whole, "")
                    if whole.exists()
                    else Definition(home.with_suffix(".py"), one.name)
                )
    return found


def _homes(path: Path, name: str) -> Iterator[Definition]:
    """Where a name that a module uses may be defined: there, where it is imported from, or as a
    fixture in a `conftest.py` above."""
    if name in _definitions(path):
        yield Definition(path, name)
    elif name in (imported := _imported(path)):
        yield imported[name]
    else:
        fixtures = (Definition(one, name) for one in _conftests(path.parent))
        yield from (one for one in fixtures if name in _definitions(one.path))


@cache
def _conftests(folder: Path) -> tuple[Path, ...]:
    above = [folder, *folder.parents]
    found = (one / "conftest.py" for one in above[: above.index(ROOT) + 1])
    return tuple(path for path in found if path.exists())


@cache
def _used(one: Definition) -> frozenset[str]:
    known = _definitions(one.path)
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
