"""Benchmarks, targets and themes in the command palette, by their names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from textual.command import Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from engine.display import one_line
from tui.display import content
from tui.starring import Starring
from tui.themes import PREFIX, THEMES


class Named(NamedTuple):
    """Something with a name, and what is done with it."""

    text: str
    help: str
    act: IgnoreReturnCallbackType


class FoundNames(Provider):
    """Those in whose names or kinds the letters occur that were typed."""

    async def search(self, query: str) -> Hits:
        app = self.app
        if not isinstance(app, Starring):
            return
        matcher = self.matcher(query)
        for named in _all(app):
            score = matcher.match(named.text)
            if score > 0:
                yield Hit(
                    score,
                    content(named.text),
                    named.act,
                    text=named.text,
                    help=named.help,
                )


def _all(app: Starring) -> Iterator[Named]:
    benchmarks = app.watched.benchmarks
    for info in benchmarks:
        typed = f'benchmark:"={info.name}"'
        verdicts = partial(app.open_verdicts, typed)
        yield Named(f"Verdicts of {one_line(info.name)}", "a benchmark", verdicts)
    for target in sorted({target.id for info in benchmarks for target in info.targets}):
        verdicts = partial(app.open_verdicts, f'target:"={target}"')
        yield Named(f"Verdicts on {one_line(target)}", "a target", verdicts)
    for line in app.views.lines:
        verdicts = partial(app.open_verdicts, line)
        yield Named(f"Verdicts: {one_line(line)}", "a filter line of before", verdicts)
    for theme in THEMES:
        name = theme.name.removeprefix(PREFIX)
        yield Named(f"Theme: {name}", "colours", partial(app.use_theme, theme.name))
