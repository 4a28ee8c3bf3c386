"""Every regular expression of the program, and inputs that are as bad for each as can be made."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]  # (a part of Python without types)
from re import _parser as parser  # type: ignore[attr-defined]  # (as above)
from typing import Any, Final

LISTED: Final = Path(__file__).parent / "expressions.txt"
ROOT: Final = Path(__file__).parents[2]
_USES: Final = frozenset({"search", "match", "fullmatch", "sub", "findall", "finditer", "split"})
_ONCE: Final = frozenset({"search", "match", "fullmatch"})
_SAMPLES: Final = {"DIGIT": "1", "SPACE": " ", "WORD": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}
_MOST: Final = 30
_IMPORTS_RE: Final = re.compile(r"^\s*import re$", re.MULTILINE)
_USE: Final = re.compile(rf"\b(\w+)\.({'|'.join(sorted(_USES))})\b")


@cache
def expressions() -> Mapping[str, re.Pattern[Any]]:
    """By the module and the name of each, or what it says where it has none."""
    found: dict[str, re.Pattern[Any]] = {}
    for place, path in _paths().items():
        if not _IMPORTS_RE.search(path.read_text("utf-8")):
            continue
        tree = _nodes(path)
        found |= {f"{place} {text}": one for text, one, _ in _unnamed(tree)}
        import_module(place)
        for name, value in vars(sys.modules[place]).items():
            for one in value if isinstance(value, tuple) else (value,):
                inner = one if isinstance(one, tuple) else (one,)
                for each in inner:
                    if isinstance(each, re.Pattern) and _is_of(tree, name):
                        many = isinstance(value, tuple)
                        found[f"{place}.{name}" + f" {each.pattern}" * many] = each
    return found


def _paths() -> Mapping[str, Path]:
    """Of each module, by its name."""
    paths = sorted(path for room in ("engine", "tui") for path in (ROOT / room).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


@cache
def _nodes(path: Path) -> Sequence[ast.AST]:
    """All nodes of a module, its own first."""
    return list(ast.walk(ast.parse(path.read_bytes())))


def _is_of(tree: Sequence[ast.AST], name: str) -> bool:
    """Whether the module makes it and does not only import it."""
    module = tree[0]
    assert isinstance(module, ast.Module)
    names = (
        target
        for node in module.body
        for target in (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
    )
    return any(isinstance(target, ast.Name) and target.id == name for target in names)


def _unnamed(tree: Iterable[ast.AST]) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    for node in tree:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        of, first = node.func.value, node.args[:1]
        if not (isinstance(of, ast.Name) and of.id == "re" and node.func.attr in _USES and first):
            continue
        text = ast.unparse(first[0])
        constant = isinstance(first[0], ast.Constant)
        yield text, re.compile(ast.literal_eval(first[0]) if constant else "(?!)"), node.func.attr


def worst_inputs(expression: re.Pattern[Any]) -> list[tuple[str, str]]:
    """What stands before, and what is repeated: from the expression's own parts."""
    text = expression.pattern
    tree = parser.parse(
        text if isinstance(text, str) else text.decode("latin-1"), expression.flags & ~re.U
    )
    found: dict[tuple[str, str], None] = {("", one): None for one in (" ", "a", "\n", "a ", "<")}
    for part in _parts(tree):
        ops = list(part)
        for first in range(len(ops)):
            for last in range(first + 1, min(first + 4, len(ops)) + 1):
                if repeated := _sample(ops[first:last]):
                    found[_sample(ops[:first]), repeated] = None
                    found["", repeated] = None
    return list(found)[:_MOST]


def _parts(tree: Any) -> Iterator[Any]:
    yield tree
    for code, value in tree:
        if code is op.BRANCH:
            for one in value[1]:
                yield from _parts(one)
        elif code in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
            yield from _parts(value[2])
        elif code is op.SUBPATTERN:
            yield from _parts(value[3])


def _sample(tree: Any) -> str:
    said = ""
    for code, value in tree:
        if code is op.LITERAL:
            said += chr(value)
        elif code in {op.NOT_LITERAL, op.ANY}:
            said += "a"
        elif code is op.IN:
            said += _one_of(value)
        elif code is op.BRANCH:
            said += _sample(value[1][0])
        elif code in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
            said += _sample(value[2]) * max(value[0], 1)
        elif code is op.SUBPATTERN:
            said += _sample(value[3])
    return said


def _one_of(members: Any) -> str:
    for code, value in members:
        if code is op.RANGE:
            return chr(value[0])
        if code is op.LITERAL:
            return chr(value)
        if code is op.CATEGORY:
            return _SAMPLES.get(str(value).removeprefix("CATEGORY_"), "a")
        if code is op.NEGATE:
            return "a"
    return "a"


def seconds(
    expression: re.Pattern[Any], before: str, repeated: str, size: int, use: str = "finditer"
) -> float:
    """Of CPU, to find everything in an input of this size that ends in what nothing expects."""
    text = before + repeated * (size // len(repeated)) + "\x00"
    given: Any = text if isinstance(expression.pattern, str) else text.encode("utf-8", "replace")
    began = time.process_time()
    if use in _ONCE:
        getattr(expression, use)(given)
    else:
        for _ in expression.finditer(given):
            pass
    return time.process_time() - began


def uses() -> dict[str, str]:
    """How the program looks with each, by its key: by `match`, `fullmatch` or `search`, which stop
    at the first place; `finditer` where it may look for all of them."""
    ways: dict[str, set[str]] = {}
    for place, path in _paths().items():
        code = path.read_text("utf-8")
        if _IMPORTS_RE.search(code):
            for text, _, way in _unnamed(_nodes(path)):
                ways.setdefault(f"{place} {text}", set()).add(way)
        for name, way in _USE.findall(code):
            ways.setdefault(name, set()).add(way)
    found = {}
    for key in expressions():
        name = key if " " in key else key.rpartition(".")[2]
        all_ways = set(ways.get(name, ()))
        found[key] = all_ways.pop() if len(all_ways) == 1 and all_ways <= _ONCE else "finditer"
    return found


if __name__ == "__main__":
    LISTED.write_text("".join(f"{line}\n" for line in sorted(map(ascii, expressions()))), "utf-8")
