"""Taking something out of the app: to the clipboard, into a pager, into a file."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from engine.errors import CrosswindError
from tui.among import Subject
from tui.copying import copy
from tui.navigation import Navigating
from tui.private import cache_folder, write_private
from tui.screens.choice import ChoiceScreen, Offer
from tui.screens.watching import WatchingScreen
from tui.shell_commands import ShellCommand
from tui.written import as_json, as_markdown

TEXT: Final = Offer("t", "the conversation", "as text, with verdicts")
ID: Final = Offer("i", "its id", "")
JSON: Final = Offer("j", "JSON", "every take, as it was received")
SCREEN: Final = Offer("s", "the screen", "what stands on it now")
MARKDOWN: Final = Offer("m", "Markdown", "the conversation, for people")
PICTURE: Final = Offer("s", "the screen", "as an SVG picture")
_AT_MOST: Final = 1000
"""Files of one name, before another folder is wanted."""


class Taking(Navigating):
    """An app whose texts can be taken elsewhere."""

    def tell(self, text: str, *, bad: bool = False) -> None:
        raise NotImplementedError

    @property
    def subject(self) -> Subject | None:
        screen = self.screen
        return screen.subject if isinstance(screen, WatchingScreen) else None

    def action_copy(self) -> None:
        subject = self.subject
        commands = {
            Offer(command.key, f"crosswind {command.words[0]}", " ".join(command.words[1:])): line
            for command, line in self._command_lines()
        }
        if subject is None and not commands:
            self._copy(self._screen_text)
            return
        offers = [] if subject is None else [TEXT, ID]
        offers += [*commands, *([] if subject is None else [JSON]), SCREEN]

        def chosen(offer: Offer | None) -> None:
            if offer in commands:
                self._copy(lambda: commands[offer])
            elif offer is not None:
                self._copy(self._text_of(offer, subject))

        self.push_screen(ChoiceScreen("Copy what?", offers), chosen)

    def action_page(self) -> None:
        """The conversation, or else the screen, in the pager."""
        subject = self.subject
        if subject is None:
            self._away(self._page("screen.txt", self._screen_text))
        else:
            name = f"{_file_name(subject)}.md"
            self._away(self._page(name, lambda: as_markdown(self._watch.reader, subject)))

    def action_export(self) -> None:
        subject = self.subject
        offers = [PICTURE] if subject is None else [MARKDOWN, JSON, PICTURE]
        self.push_screen(
            ChoiceScreen("Write what into a file?", offers),
            lambda chosen: None if chosen is None else self._export(chosen, subject),
        )

    def _command_lines(self) -> list[tuple[ShellCommand, str]]:
        screen = self.screen
        commands = screen.commands if isinstance(screen, WatchingScreen) else ()
        workspace = self._watch.reader.path.parent
        return [(command, command.line(workspace)) for command in commands]

    def _text_of(self, chosen: Offer, subject: Subject | None) -> Callable[[], str]:
        reader = self._watch.reader
        if chosen is SCREEN or subject is None:
            return self._screen_text
        if chosen is ID:
            return lambda: str(subject.key)
        if chosen is JSON:
            return lambda: as_json(reader, subject)
        return lambda: as_markdown(reader, subject)

    def _screen_text(self) -> str:
        strips = self.screen._compositor.render_strips(self.size)  # noqa: SLF001  (no public way to its text)
        return "\n".join(strip.text.rstrip() for strip in strips).rstrip() + "\n"

    def _copy(self, make: Callable[[], str]) -> None:
        self._away(self._copied(make))

    async def _copied(self, make: Callable[[], str]) -> None:
        text = make()
        copied = await copy(text, os.environ, self.copy_to_clipboard)
        self.tell(str(copied))

    async def _page(self, name: str, make: Callable[[], str]) -> None:
        # Imported here, since it is seldom the first thing that is needed.
        from tui.pager import show_file

        path = cache_folder(os.environ) / name
        await asyncio.to_thread(write_private, path, make())
        await show_file(self, path)

    def _export(self, chosen: Offer, subject: Subject | None) -> None:
        reader = self._watch.reader
        if chosen is PICTURE or subject is None:
            self._away(self._exported(f"crosswind-{self.place.lower()}", ".svg", self._picture))
        elif chosen is JSON:
            name = _file_name(subject)
            self._away(self._exported(name, ".json", lambda: as_json(reader, subject)))
        else:
            name = _file_name(subject)
            self._away(self._exported(name, ".md", lambda: as_markdown(reader, subject)))

    def _picture(self) -> str:
        return self.export_screenshot(title="Crosswind")

    async def _exported(self, name: str, suffix: str, make: Callable[[], str]) -> None:
        path = await asyncio.to_thread(write_new, Path.cwd(), name, suffix, make())
        self.tell(f"Written: {path}")

    def _away(self, doing: Coroutine[object, object, None]) -> None:
        self.run_worker(self._guarded(doing), group="taking")

    async def _guarded(self, doing: Coroutine[object, object, None]) -> None:
        try:
            await doing
        except CrosswindError as error:
            self.tell(str(error), bad=True)
        except OSError as error:
            self.tell(f"{error.filename}: {error.strerror}", bad=True)


def write_new(folder: Path, name: str, suffix: str, text: str) -> Path:
    """Into a file that was not there; nothing is ever overwritten. Raises `OSError`."""
    for number in range(1, _AT_MOST):
        path = folder / f"{name}{'' if number == 1 else f'-{number}'}{suffix}"
        try:
            with path.open("x", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise OSError(0, "there are too many files of that name", str(folder / name))


def _file_name(subject: Subject) -> str:
    """Ids come from files as well, so they are held to what every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", str(subject.key).lstrip(".")[:150]) or "conversation"
