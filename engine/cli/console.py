"""The output of the headless commands: results to stdout, all else to stderr, as plain text."""

from __future__ import annotations

import codecs
import fcntl
import io
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size, which
from textwrap import wrap
from typing import Any, Final, TextIO
from unicodedata import east_asian_width

from engine.display import ASCII_SIGNS, clean, wants_ascii
from engine.errors import InputError, Problem

PROGRAM: Final = "crosswind"

_COERCED: Final = {"C.UTF-8", "C.utf8", "UTF-8"}
"""What Python writes into LC_CTYPE where the locale is C; it says nothing of the terminal."""


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """An encoding error handler: similar characters in place of those that a terminal lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(ASCII_SIGNS)
    return text.encode(error.encoding, "replace").decode(error.encoding), error.end


def prepare_streams() -> None:
    """Replace standard streams that were closed, as daemons do, by `/dev/null`; what is then
    printed to stdout is lost, and fails. Print similar characters, rather than fail, where the
    terminal cannot show some."""
    # a new descriptor has the lowest free number, which would be that of a closed stream
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        _redirect(1, os.O_RDONLY)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115  (for the whole process)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(1, "w", closefd=False)),
        encoding=sys.stdout.encoding if sys.stdout else "utf-8",
        line_buffering=os.isatty(1),
    )
    # an error handler and not `errors="replace"`: a table of question marks cannot be read
    codecs.register_error("crosswind", _replace_unencodable)
    if sys.flags.utf8_mode and os.environ.get("LC_CTYPE") in _COERCED:
        del os.environ["LC_CTYPE"]  # so that it says again what the user has set
    # in a locale without UTF-8 Python's UTF-8 mode writes UTF-8 all the same
    plain = wants_ascii(os.environ)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = "ascii" if plain and stream.isatty() else None
            stream.reconfigure(encoding=encoding, errors="crosswind")


def command_line(words: str, workspace: Path) -> str:
    """A command on a workspace, as it can be typed in any folder of this machine."""
    return " ".join(
        filter(None, (shlex.quote(program()), words, f"--workspace {shlex.quote(str(workspace))}"))
    )


def program() -> str:
    """`crosswind`, or the path of the script where a shell would not find it by that name."""
    script = Path(sys.argv[0])
    found = which(PROGRAM)
    if script.name != PROGRAM or (found is not None and script.samefile(found)):
        return PROGRAM
    return str(script.absolute())


def out(text: str = "") -> None:
    """Print a line of the result to stdout."""
    print(clean(text))  # noqa: T201  (the one place that writes results)


def out_sentences(text: str) -> None:
    """Print sentences of the result to stdout. On a terminal their lines end between words."""
    print(_broken_into_lines(text, sys.stdout))  # noqa: T201


OUTPUT_VERSION: Final = 1
"""Of the shapes of `--json`: it rises when a key changes its meaning, or goes."""


def out_json(shape: str, data: object) -> None:
    """Print the result as JSON, in ASCII: text of models is escaped. What `data` is,
    `tools/outputs.py` says by the name of its shape."""
    whole = {"shape": shape, "version": OUTPUT_VERSION, "data": data}
    print(json.dumps(whole, indent=2, ensure_ascii=True))  # noqa: T201


def tell(text: str) -> None:
    """Print sentences about the command, not of its result, to stderr. On a terminal their lines
    end between words."""
    try:
        print(_broken_into_lines(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        discard(sys.stderr)  # a full disk behind it must not end what is paid for


def says_yes() -> bool:
    """Read the answer to a question from the terminal."""
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def goes_on() -> bool:
    """Ask on the terminal whether to go on."""
    tell("go on? [y/N]")
    return says_yes()


def goes_on_for_good(what: str) -> bool:
    """Ask before a command does what cannot be undone, such as "removes …". Raises `InputError`
    where nobody can be asked."""
    if not sys.stdin.isatty():
        hint = "add `--yes`: there is no terminal to ask on"
        raise InputError(Problem(f"this {what}", hint=hint))
    tell(f"this {what}")
    return goes_on()


class _Output(io.FileIO):
    """Standard output, which remembers its failure: argparse ignores those of its help."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def output_failure() -> OSError | None:
    """Return why not everything could be written to stdout, if so."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Output) else None


def discard(stream: TextIO) -> None:
    """Send what is left of a stream that cannot be written, and all that follows, nowhere."""
    _redirect(stream.fileno(), os.O_WRONLY)


def do_without_stdout() -> None:
    """Let a command whose work is stored succeed where stdout was closed before it began."""
    if fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        discard(sys.stdout)


def _redirect(descriptor: int, access: int) -> None:
    nowhere = os.open(os.devnull, access)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _broken_into_lines(text: str, stream: TextIO) -> str:
    text = clean(text)
    if not stream.isatty():
        return text
    width = get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in _between_words(line, width))


def _between_words(line: str, width: int) -> list[str]:
    """Break a line at blanks only, so that a path can still be copied as a whole."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int]) -> str:
    """A table with two blanks between columns; those in `right` are aligned to the right. Without
    `head`, it has only rows."""

    def width(text: str) -> int:
        # with the standard library: rich takes longer to load than most commands to run
        return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)

    cells = [[clean(cell) for cell in row] for row in (*([head] if head else ()), *rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        parts = []
        for column, cell in enumerate(row):
            gap = " " * (widths[column] - width(cell))
            parts.append(gap + cell if column in right else cell + gap)
        return "  ".join(parts).rstrip()

    if not head:
        return "\n".join(map(line, cells))
    rule = "  ".join("─" * size for size in widths)
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])
