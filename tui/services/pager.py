"""Hands the terminal over to a pager or an editor, and takes it back."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

from textual.app import App, SuspendNotSupported

from engine.errors import CrosswindError


class PagerError(CrosswindError):
    """No program could show the text."""


def viewer(environ: Mapping[str, str]) -> list[str] | None:
    """The words of the program that shows a file here; None where there is none."""
    return _program(environ, ("PAGER", "VISUAL", "EDITOR"), ("less", "more", "vi"))


def editor(environ: Mapping[str, str]) -> list[str] | None:
    """The words of the program that changes a file here; None where there is none."""
    return _program(environ, ("VISUAL", "EDITOR"), ("nano", "vi"))


def _program(
    environ: Mapping[str, str], variables: Sequence[str], others: Sequence[str]
) -> list[str] | None:
    for variable in variables:
        try:
            words = shlex.split(environ.get(variable, ""))
        except ValueError:  # quotation marks that do not close
            continue
        if words and which(words[0], path=environ.get("PATH")):
            return words
    for name in others:
        if which(name, path=environ.get("PATH")):
            return [name]
    return None


async def show_file(app: App[Any], path: Path, words: Sequence[str] | None) -> None:
    """Hand the terminal over to the program of these words until it ends. Raises `PagerError`."""
    if words is None:
        raise PagerError(f"There is no pager or editor here; the text is in {path}")
    try:
        # without the batch, a frame that is drawn meanwhile waits for a driver that is at rest
        with app.batch_update(), app.suspend(), _interrupts_are_not_ours():
            program = await asyncio.create_subprocess_exec(*words, str(path))
            await program.wait()
    except SuspendNotSupported as error:
        raise PagerError(f"This terminal cannot be handed over; the text is in {path}") from error
    except OSError as error:
        fault = f"{words[0]} could not be started: {error.strerror}"
        raise PagerError(f"{fault}; the text is in {path}") from error


@contextmanager
def _interrupts_are_not_ours() -> Iterator[None]:
    """Ctrl-C reaches every process of the terminal, and is meant for the one that is seen. A
    handler of ours is not inherited, so that one has its own."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
