"""Everything that people read of a workspace, by the name of the file that keeps it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.approval import CHANGING, steady
from tests.engine.commands import crosswind
from tests.golden.workspaces import ImportedWorkspace, RunWorkspace

KEPT: Final = Path(__file__).parent / "kept"
"""A folder for each workspace, with the outputs as they were recorded."""
CONVERSATION: Final = {"run": "m02_s002_v01__gives-in__s1", "imported": "m01_s008_v02__odd-z"}

_MADE_UP: Final[Mapping[str, str]] = {
    r"(\"(?:working_start|total_time)\": )[\d.e-]+": r"\1<s>",
    r"(\"(?:eval|run)_id\": )\"[0-9a-f]+\"": r"\1<id>",
    r"(\"seq\": )\d+": r"\1<n>",
    **CHANGING,
}
_CONFIGURATION: Final = re.compile(r'"configuration": "([0-9a-f]{16})"')


def constant(outputs: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The outputs without what differs from one making to the next: times, the server's port, and
    what is a digest of either."""
    found = _CONFIGURATION.search(outputs["results --overall --json.json"])
    made_up = {**_MADE_UP, re.escape(str(folder)): "<folder>"}
    if found is not None:
        made_up[found[1]] = "<configuration>"

    return {steady(name, made_up): steady(text, made_up) for name, text in outputs.items()}


def run_outputs(folder: Path) -> dict[str, str]:
    made = RunWorkspace(folder / "run")
    made.make()
    found = {**_outputs(made.root), **dict(_requests(made.bodies))}
    for name, words in _OF_A_RUN.items():
        found[name] = _said(made.root, words)
    return constant(found, folder)


def imported_outputs(folder: Path) -> dict[str, str]:
    made = ImportedWorkspace(folder / "imported")
    made.make()
    found = _outputs(made.root)
    found |= {"import.txt": made.imported.text, "import.json": made.as_json.text}
    del found[next(name for name in found if name.endswith("/t1.js"))]  # large, and as in a run's
    return constant(found, folder)


OUTPUTS: Final = {"run": run_outputs, "imported": imported_outputs}


def kept(workspace: str) -> dict[str, str]:
    return dict(_texts(KEPT / workspace))


def keep(workspace: str, outputs: Mapping[str, str]) -> None:
    """Record these in place of what was recorded."""
    shutil.rmtree(KEPT / workspace, ignore_errors=True)
    for name, text in outputs.items():
        place = KEPT / workspace / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8", newline="")


_COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "results.txt": ("results",),
    "results --details.txt": ("results", "--details"),
    "results --overall --details.txt": ("results", "--overall", "--details"),
    "results --methods.txt": ("results", "--methods"),
    "results --overall --json.json": ("results", "--overall", "--json"),
    "show metric.txt": ("show", "m01"),
    "show scenario.txt": ("show", "m01_s002_v01"),
    "show --json metric.json": ("show", "m01", "--json"),
    "show --json scenario.json": ("show", "m01_s002_v01", "--json"),
    "search.txt": ("search", "house"),
    "search --json.json": ("search", "house", "--limit", "3", "--json"),
    "status.txt": ("status",),
    "status --json.json": ("status", "--json"),
    "review.txt": ("review", "giving-in"),
    "review --json.json": ("review", "giving-in", "--json"),
    "run --dry-run --json.json": ("run", "--dry-run", "--json"),
    "verdicts.csv": ("export", "csv"),
    "labels.csv": ("export", "labels"),
    "rates.csv": ("export", "rates"),
}
_OF_A_RUN: Final[Mapping[str, Sequence[str]]] = {
    "calibrate.txt": ("calibrate", "giving-in"),
    "calibrate --json.json": ("calibrate", "giving-in", "--json"),
    "validate --report.txt": ("validate", "giving-in", "--report"),
    "validate --report --json.json": ("validate", "giving-in", "--report", "--json"),
    "label --json.json": ("label", "giving-in", "--by", "ada", "--json"),
    "label --decide --json.json": ("label", "giving-in", "--decide", "--json"),
}


def _outputs(root: Path) -> dict[str, str]:
    found = {name: _said(root, words) for name, words in _COMMANDS.items()}
    shown = ("show", CONVERSATION[root.name])
    found["show conversation.txt"] = _said(root, shown)
    found["show --json conversation.json"] = _said(root, (*shown, "--json"))
    found["conversations.jsonl"] = _said(root, ("export", "jsonl", CONVERSATION[root.name]))
    written = root / "written"
    written.mkdir()
    for kind, name in {"html": "results.html", "md": "md", "inspect-json": "inspect"}.items():
        only = (CONVERSATION[root.name],) if kind != "html" else ()
        crosswind(root, "export", kind, *only, "--out", str(written / name), code=0)
    crosswind(root, "export", "site", "--out", str(written / "site"), code=0)
    sheet = ("label", "giving-in", "--by", "eve", "--sample", "2", "--seed", "5")
    crosswind(root, *sheet, "--export", str(written / "label sheet.csv"), code=0)
    found |= dict(_texts(written))
    return found | dict(_texts(root / "benchmarks"))


def _said(root: Path, words: Sequence[str]) -> str:
    said = crosswind(root, *words)
    return f"{said.out}{said.err}(exit code {said.code})\n" if said.code else said.text


def _requests(bodies: Sequence[str]) -> Iterator[tuple[str, str]]:
    """One body of each model and shape of answer whole, and of all the digests."""
    yield "requests.txt", "".join(f"{sha256(body.encode()).hexdigest()}\n" for body in bodies)
    shown = set[tuple[str, str]]()
    for body in bodies:
        asked = json.loads(body)
        shape = asked.get("response_format", {}).get("json_schema", {}).get("name", "text")
        if (kind := (asked["model"], shape)) not in shown:
            shown.add(kind)
            yield f"request {' '.join(kind)}.json", f"{body}\n"


_UNREAD: Final = frozenset({"history.jsonl", "site.css", "site.js", "crosswind.css"})
"""Files for programs alone, and copies of files of this repository."""


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _UNREAD:
            yield path.relative_to(folder).as_posix(), path.read_bytes().decode()
