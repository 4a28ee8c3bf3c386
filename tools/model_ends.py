"""Makes the table of names of models that end, from what the installed clients say:
`python -m tools.model_ends`, with `--write` to keep it.

OpenAI's client says it in the docstring below its list of chat models, Anthropic's in a constant.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from engine.config.checks import TABLE

_OPENAI: Final = Path("types/shared/chat_model.py")
_ANTHROPIC: Final = Path("resources/messages/messages.py")
_SHUTDOWN: Final = re.compile(r"^- (.*?):\s+Announced shutdown date:\s+([\d-]+)", re.MULTILINE)
_ORDINAL: Final = re.compile(r"(?<=\d)(st|nd|rd|th)\b")


def openai_ends(source: str) -> dict[str, date]:
    """By name, from the source of the module with its chat models."""
    text = "\n".join(
        node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    # an entry goes on over lines that are indented
    joined = re.sub(r"\n(?!\s*- )\s*", " ", text)
    return {
        name: date.fromisoformat(day)
        for names, day in _SHUTDOWN.findall(joined)
        for name in re.findall(r'"([^"]+)"', names)
    }


def anthropic_ends(source: str) -> dict[str, date]:
    """By name, from the source of the module with its constant."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            [target] = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            if isinstance(target, ast.Name) and target.id == "DEPRECATED_MODELS":
                table: Mapping[str, str] = ast.literal_eval(node.value)
                return {name: _day(text) for name, text in table.items()}
    raise LookupError("the client has no DEPRECATED_MODELS any more")


def _day(text: str) -> date:
    plain = _ORDINAL.sub("", text)
    return datetime.strptime(plain, "%B %d, %Y").replace(tzinfo=UTC).date()


def _source(package: str, module: Path) -> str:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(f"{package} is not installed")
    return (Path(spec.origin).parent / module).read_text("utf-8")


def lines() -> Iterator[str]:
    yield "# Names of models that end, and when; written by `python -m tools.model_ends --write`."
    found = {
        "openai": openai_ends(_source("openai", _OPENAI)),
        "anthropic": anthropic_ends(_source("anthropic", _ANTHROPIC)),
    }
    for source, ends in found.items():
        yield f"# {source} {version(source)}"
        for name, day in sorted(ends.items(), key=lambda end: (end[1], end[0])):
            yield f"{source} {name} {day}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.model_ends", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep it in engine/config")
    text = "\n".join([*lines(), ""])
    if parser.parse_args().write:
        TABLE.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
