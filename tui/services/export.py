"""Copy or write things out of the app: to the clipboard, a pager, or a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any, Final

from textual.app import App

from engine.display import clean
from engine.errors import CrosswindError
from engine.jury import Counts
from engine.report.writing import Hide
from engine.store.reader import Reader
from engine.watch import Watch
from tui.navigation import Navigator
from tui.screens.base import ShellCommand, WatchingScreen
from tui.screens.dialogs import ChoiceOption, ChoiceScreen
from tui.services.preferences import cache_folder, write_private
from tui.services.terminal import show_file, viewer
from tui.services.textual_internals import screen_text
from tui.state.related import Subject

MOST_FOR_TERMINAL: Final = 50_000
"""The most bytes offered to the terminal. Terminals drop what exceeds their limit; the lowest known
limits are a little above this in base64."""
PATIENCE: Final = 2.0
"""The time limit in seconds for a clipboard program."""


def programs(environ: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
    """The clipboard programs available here, by the names users know."""
    available: list[tuple[str, Sequence[str]]] = []
    if environ.get("TMUX"):
        available.append(("tmux", ("tmux", "load-buffer", "-w", "-")))
    if environ.get("SSH_CONNECTION"):
        return available
    local = [
        (True, ("pbcopy",)),
        (bool(environ.get("WAYLAND_DISPLAY")), ("wl-copy",)),
        (bool(environ.get("DISPLAY")), ("xclip", "-selection", "clipboard")),
        (bool(environ.get("DISPLAY")), ("xsel", "--clipboard", "--input")),
    ]
    for fits, words in local:
        if fits and which(words[0], path=environ.get("PATH")):
            available.append(("the clipboard", words))
            break
    return available


async def copy(text: str, environ: Mapping[str, str], to_terminal: Callable[[str], None]) -> str:
    """Copy a text, without anything that could act on a terminal. Returns in words what took it;
    the terminal never confirms."""
    text = clean(text)
    taken = [name for name, words in programs(environ) if await _pipe_text(words, text)]
    if len(text.encode("utf-8", "replace")) <= MOST_FOR_TERMINAL:
        to_terminal(text)
        taken.append("the terminal, if it takes it")
    with suppress(OSError):
        file = cache_folder(environ) / "copied.txt"
        await asyncio.to_thread(write_private, file, text)
        taken.append(str(file))
    if not taken:
        return "Nothing took the text: neither tmux, the terminal nor a file."
    return f"Copied {len(text):,} characters to {', '.join(taken)}"


async def _pipe_text(words: Sequence[str], text: str) -> bool:
    """Whether the program took the text within `PATIENCE` seconds."""
    try:
        program = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(program.communicate(text.encode("utf-8", "replace")), PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
        return False
    return program.returncode == 0


def as_markdown(reader: Reader, subject: Subject, counts: Counts | None, hide: Hide) -> str:
    """A conversation as `crosswind export md` writes it, with messages escaped, but with
    every take. Raises `StoreError`."""
    return _every_take(reader, subject, counts, hide, markdown=True)


def as_json(reader: Reader, subject: Subject, hide: Hide) -> str:
    """Every take as received, as JSON in ASCII."""
    return _every_take(reader, subject, None, hide, markdown=False)


def _every_take(
    reader: Reader, subject: Subject, counts: Counts | None, hide: Hide, *, markdown: bool
) -> str:
    # imported with the first file: no frame waits these 16 ms
    from engine.report.conversation import as_object, document, takes

    all_takes = map(hide, takes(reader, subject.benchmark, subject.key, counts))
    if markdown:
        return "\n".join(line for take in all_takes for line in (*document(take), ""))
    return json.dumps([as_object(conversation) for conversation in all_takes], indent=2) + "\n"


ID: Final = ChoiceOption("i", "its id", "")
JSON: Final = ChoiceOption("j", "JSON", "every take, as it was received")
SCREEN: Final = ChoiceOption("s", "the screen", "what stands on it now")
MARKDOWN: Final = ChoiceOption("m", "Markdown", "the conversation, for people")
PICTURE: Final = ChoiceOption("s", "the screen", "as an SVG picture")
_AT_MOST: Final = 1000
"""The most files of one name before another folder is needed."""


class Exporter:
    """Copies and exports the conversation that a screen is about, or the screen."""

    def __init__(
        self,
        app: App[Any],
        watch: Watch,
        navigator: Navigator,
        tell: Callable[..., None],
        hiding: Callable[[], Hide],
    ) -> None:
        """`tell` shows a notice; `hiding` returns what hides keys in all that is taken out."""
        self._app = app
        self._watch = watch
        self._navigator = navigator
        self._tell = tell
        self._hiding = hiding

    @property
    def subject(self) -> Subject | None:
        """The conversation that the current screen is about."""
        screen = self._app.screen
        return screen.subject if isinstance(screen, WatchingScreen) else None

    def copy(self) -> None:
        """Copy the screen, or ask what to copy if there is more."""
        subject = self.subject
        commands = {
            ChoiceOption(
                command.key, f"crosswind {command.words[0]}", " ".join(command.words[1:])
            ): line
            for command, line in self._command_lines()
        }
        if subject is None and not commands:
            self._copy(self._screen_text)
            return
        offers = [] if subject is None else [MARKDOWN, ID]
        offers += [*commands, *([] if subject is None else [JSON]), SCREEN]

        def chosen(offer: ChoiceOption | None) -> None:
            if offer in commands:
                self._copy(lambda: commands[offer])
            elif offer is not None:
                self._copy(self._text_of(offer, subject))

        self._app.push_screen(ChoiceScreen("Copy what?", offers), chosen)

    def page(self) -> None:
        """Show the conversation, or else the screen, in the pager."""
        subject = self.subject
        name = "screen.txt" if subject is None else f"{_file_name(subject)}.md"
        self._run_in_background(self._page(name, self._text_of(MARKDOWN, subject)))

    def export(self) -> None:
        """Ask what to export into the working folder."""
        subject = self.subject
        offers = [PICTURE] if subject is None else [MARKDOWN, JSON, PICTURE]
        asked = "Export the screen?" if subject is None else "Export what?"

        def chosen(offer: ChoiceOption | None) -> None:
            if offer is not None:
                self._export(offer, subject)

        self._app.push_screen(ChoiceScreen((asked, f"into {Path.cwd()}"), offers), chosen)

    def _command_lines(self) -> list[tuple[ShellCommand, str]]:
        screen = self._app.screen
        commands = screen.commands if isinstance(screen, WatchingScreen) else ()
        workspace = self._watch.reader.path.parent
        return [(command, command.line(workspace)) for command in commands]

    def _text_of(self, chosen: ChoiceOption, subject: Subject | None) -> Callable[[], str]:
        reader = self._watch.reader
        if chosen is SCREEN or subject is None:
            return self._screen_text
        if chosen is ID:
            return lambda: str(subject.key)
        if chosen is JSON:
            return lambda: as_json(reader, subject, self._hiding())
        return lambda: as_markdown(
            reader, subject, self._watch.counts(subject.benchmark), self._hiding()
        )

    def _screen_text(self) -> str:
        return screen_text(self._app)

    def _copy(self, make: Callable[[], str]) -> None:
        self._run_in_background(self._copied(make))

    async def _copied(self, make: Callable[[], str]) -> None:
        text = await self._made(make)
        self._tell(await copy(text, os.environ, self._app.copy_to_clipboard))

    async def _page(self, name: str, make: Callable[[], str]) -> None:
        path = cache_folder(os.environ) / name
        await asyncio.to_thread(write_private, path, await self._made(make))
        await show_file(self._app, path, viewer(os.environ))

    def _export(self, chosen: ChoiceOption, subject: Subject | None) -> None:
        if chosen is PICTURE or subject is None:
            name, suffix, make = f"crosswind-{self._navigator.place.lower()}", ".svg", self._picture
        else:
            name, make = _file_name(subject), self._text_of(chosen, subject)
            suffix = ".json" if chosen is JSON else ".md"
        self._run_in_background(self._exported(name, suffix, make))

    def _picture(self) -> str:
        return self._app.export_screenshot(title="Crosswind")

    async def _exported(self, name: str, suffix: str, make: Callable[[], str]) -> None:
        text = await self._made(make)
        path = await asyncio.to_thread(write_new, Path.cwd(), name, suffix, text)
        self._tell(f"Written: {path}")

    async def _made(self, make: Callable[[], str]) -> str:
        """The text, made on a thread, as many takes of a long conversation take a while to read.
        What is on the screen is read here, before it changes."""
        if make not in (self._screen_text, self._picture):
            return await asyncio.to_thread(make)
        drawn = make()
        hide = await asyncio.to_thread(self._hiding)
        return str(hide(drawn))

    def _run_in_background(self, doing: Coroutine[object, object, None]) -> None:
        self._app.run_worker(self._run_guarded(doing), group="taking")

    async def _run_guarded(self, doing: Coroutine[object, object, None]) -> None:
        try:
            await doing
        except CrosswindError as error:
            self._tell(str(error), bad=True)
        except OSError as error:
            self._tell(f"{error.filename}: {error.strerror}", bad=True)


def write_new(folder: Path, name: str, suffix: str, text: str) -> Path:
    """Write a new file; nothing is ever overwritten. Raises `OSError`."""
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
    """A file name. Ids may come from files, so only what all file systems take is kept."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", str(subject.key).lstrip(".")[:150]) or "conversation"
