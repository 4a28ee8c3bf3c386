"""The manual's pages as they are built: those that are written, with what is made from the program
in its place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.manual.commands import command_reference
from tools.manual.configuration import benchmark_reference, config_reference
from tools.manual.costs import costs
from tools.manual.keys import keys_reference
from tools.manual.lists import failures, queries, rules, sources, vendors
from tools.manual.store import store_reference

DOCS: Final = Path(__file__).parents[2] / "docs"
DECISIONS: Final = DOCS / "decisions"
SIMULATIONS: Final = DOCS / "simulations"
_SIMULATED: Final = (
    *("intervals", "false-claims", "power", "overall", "label-coverage", "validation-claims"),
)
"""The files of simulations in the order of their page."""
PARTS: Final = frozenset({DECISIONS, SIMULATIONS})
"""The folders of files that are parts of one page each."""
PICTURES: Final = DOCS / "pictures"
SETTINGS: Final = Path(__file__).with_name("zensical.toml")
_ASSETS: Final = ("manual.css", "iframe-worker.js")
_KINDS: Final = (".md", ".svg", ".yaml", ".ipynb")
_PLACE: Final = re.compile(r"<!-- built: (\w+) -->.*?<!-- /built -->", re.DOTALL)
_HEADING: Final = re.compile(r"^(#+ )", re.MULTILINE)
_TO_SIMULATION: Final = re.compile(r"\]\(simulations/([\w-]+)\.md\)")
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(pictures/([\w-]+)\.svg\)")


def architecture() -> str:
    """What stands beside the README, without its title, which the page has, and with its links to
    pages as links from a page."""
    text = (DOCS.parent / "ARCHITECTURE.md").read_text("utf-8").split("\n", 1)[1].strip()
    return text.replace("](docs/decisions)", "](#why-it-is-so)").replace("](docs/", "](")


def decisions() -> str:
    """The records of larger decisions, the oldest first, as parts of one page."""
    texts = (path.read_text("utf-8") for path in DECISIONS.glob("*.md"))
    parts = (f"##{text.strip()}" for text in sorted(texts, key=_date_and_title))
    return re.sub(r"\]\((\w[\w-]*)\.md\)", _to_decision, "\n\n".join(parts))


def _date_and_title(text: str) -> list[str]:
    title, _, date, *_ = text.split("\n")
    return [date, title]


def _to_decision(link: re.Match[str]) -> str:
    """A link to another record, as one to its part of the page."""
    return f"](#{_anchor(DECISIONS / f'{link[1]}.md')})"


def _anchor(part: Path) -> str:
    """Where a file stands in the page of which it is a part."""
    title = part.read_text("utf-8").split("\n", 1)[0]
    return title.removeprefix("# ").lower().replace(",", "").replace(" ", "-")


def simulations() -> str:
    """What each simulation has written, as parts of one page."""
    texts = ((SIMULATIONS / f"{name}.md").read_text("utf-8") for name in _SIMULATED)
    return "\n\n".join(_HEADING.sub(r"#\1", text.strip()) for text in texts)


def _to_simulation(link: re.Match[str]) -> str:
    return f"](simulations.md#{_anchor(SIMULATIONS / f'{link[1]}.md')})"


BUILT: Final[Mapping[str, Callable[[], str]]] = {
    "architecture": architecture,
    "benchmark": benchmark_reference,
    "commands": command_reference,
    "configuration": config_reference,
    "decisions": decisions,
    "costs": costs,
    "failures": failures,
    "keys": keys_reference,
    "queries": queries,
    "rules": rules,
    "simulations": simulations,
    "sources": sources,
    "store": store_reference,
    "vendors": vendors,
}
"""What stands between `<!-- built: NAME -->` and `<!-- /built -->` when the manual is built. In the
page as a file, what is not in `COMMITTED` has there where else to find it."""
COMMITTED: Final = frozenset(
    {*("benchmark", "configuration", "costs", "failures", "rules", "sources")}
)
"""What also stands in the pages as files: short, and seldom changed."""


def filled(text: str) -> str:
    """A page with all that is made from the program. Raises `KeyError` for an unknown name."""
    return _TO_SIMULATION.sub(_to_simulation, _PLACE.sub(lambda place: BUILT[place[1]](), text))


def committed(text: str) -> str:
    """A page as a file is to be, with what is made from the program as it is today."""

    def today(place: re.Match[str]) -> str:
        if place[1] not in COMMITTED:
            return place[0]
        return f"<!-- built: {place[1]} -->\n{BUILT[place[1]]()}\n<!-- /built -->"

    return _PLACE.sub(today, text)


def write_committed() -> None:
    """The pages as files, where the program has changed."""
    for path in DOCS.rglob("*.md"):
        _put(path, committed(path.read_text("utf-8")).encode("utf-8"))


def in_both_themes(text: str) -> str:
    """A page with each picture that is drawn light, too, for who reads it so."""

    def both(picture: re.Match[str]) -> str:
        if not (PICTURES / f"{picture[2]}-light.svg").is_file():
            return picture[0]
        drawn = f"pictures/{picture[2]}"
        dark, light = f"{drawn}.svg#only-dark", f"{drawn}-light.svg#only-light"
        return f"![{picture[1]}]({dark}) ![{picture[1]}]({light})"

    return _PICTURE.sub(both, text)


def write_pages(folder: Path) -> None:
    """All pages, pictures and settings, into a folder of ours. What did not change is not touched,
    so that whoever watches it sees what did."""
    pages = folder / "docs"
    written = (path for path in DOCS.rglob("*") if path.suffix in _KINDS)
    pages_of_their_own = (path for path in written if path.parent not in PARTS)
    wanted = {path.relative_to(DOCS): path for path in pages_of_their_own} | {
        Path(name): SETTINGS.with_name(name) for name in _ASSETS
    }
    for path in pages.rglob("*"):
        if path.is_file() and path.relative_to(pages) not in wanted:
            path.unlink()
    for name, source in sorted(wanted.items()):
        content = source.read_bytes()
        if name.suffix == ".md":
            content = in_both_themes(filled(content.decode("utf-8"))).encode("utf-8")
        _put(pages / name, content)
    _put(folder / SETTINGS.name, SETTINGS.read_bytes())


def _put(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def clean(folder: Path) -> None:
    """Without what an earlier build left, which could hide a dead link."""
    for name in ("site", ".cache"):
        shutil.rmtree(folder / name, ignore_errors=True)
