"""The command palette: benchmarks, targets and themes by name, ids by prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from textual.app import App
from textual.command import Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from engine.display import one_line
from engine.errors import StoreError
from tui.screens.base import Shell, WatchingScreen
from tui.services.display import content, unmarked
from tui.state.filters import find
from tui.themes import PREFIX, THEMES


class Named(NamedTuple):
    """Something with a name, and what is done with it."""

    text: str
    help: str
    act: IgnoreReturnCallbackType


def shell_of(app: App[Any]) -> Shell | None:
    """The palette lies over a screen, or over a dialog that lies over one."""
    screens = (each for each in reversed(app.screen_stack) if isinstance(each, WatchingScreen))
    return next((screen.shell for screen in screens), None)


class FoundNames(Provider):
    """Those in whose names or kinds the letters occur that were typed."""

    async def search(self, query: str) -> Hits:
        """Hits among benchmarks, targets and themes."""
        shell = shell_of(self.app)
        if shell is None:
            return
        matcher = self.matcher(query)
        for named in _all(shell):
            score = matcher.match(named.text)
            if score > 0:
                yield Hit(
                    score,
                    content(named.text),
                    named.act,
                    text=named.text,
                    help=named.help,
                )


def _all(shell: Shell) -> Iterator[Named]:
    benchmarks = shell.watch.benchmarks
    for info in benchmarks:
        typed = f'benchmark:"={info.name}"'
        verdicts = partial(shell.navigator.open_verdicts, typed)
        yield Named(f"Verdicts of {one_line(info.name)}", "a benchmark", verdicts)
    for target in sorted({target.id for info in benchmarks for target in info.targets}):
        verdicts = partial(shell.navigator.open_verdicts, f'target:"={target}"')
        yield Named(f"Verdicts on {one_line(target)}", "a target", verdicts)
    for line in shell.preferences.views.lines:
        verdicts = partial(shell.navigator.open_verdicts, line)
        yield Named(f"Verdicts: {one_line(line)}", "a filter line of before", verdicts)
    for theme in THEMES:
        name = theme.name.removeprefix(PREFIX)
        yield Named(f"Theme: {name}", "colours", partial(shell.use_theme, theme.name))


SCORE = 0.5
"""Beside commands whose name has all that was typed, ids come second."""
FEWEST = 2
"""Letters from which on ids are looked for."""


class FoundIds(Provider):
    """What begins like the words that were typed."""

    async def search(self, query: str) -> Hits:
        """Hits among the ids of scenarios and conversations."""
        shell = shell_of(self.app)
        if shell is None or len(query) < FEWEST:
            return
        try:
            found = await asyncio.to_thread(find, shell.watch.reader, query, 12)
        except StoreError:
            return
        for each in found:
            yield Hit(
                SCORE,
                content(each.id),
                partial(shell.navigator.open_found, each),
                text=each.id,
                help=unmarked(f"{each.kind} of {each.benchmark}"),
            )
