"""Whether a local model can be run here, found out without running it."""

from __future__ import annotations

import mmap
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import Problem
from engine.files import open_regular
from engine.local_models import KNOWN_MODELS, is_file_name, model_file

SLOTS: Final = 2
"""Replies that the server of a model writes at once. Each takes memory for a whole context, and on
a processor four were only a quarter faster than one after the other."""
LONGEST_CONTEXT: Final = 8_192
"""Tokens of a conversation, unless the model was trained for fewer."""
PROMPT_CACHE_MIB: Final = 256
"""The most memory for the beginnings of conversations that are not being continued right now."""
_LEAST_CONTEXTS_MIB: Final = 384
EXTRA: Final = "xllamacpp"
INSTALL_EXTRA: Final = "pip install 'crosswind[local]', or pipx inject crosswind xllamacpp"


def thread_count() -> int:
    """One for each two processors of this process. A processor is often half of a core, and on two
    busy ones two threads took ten times as long as one."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, processors // 2)


_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_HEADER: Final = 64 << 20
"""Bytes of a file that are searched: its header, in which the vocabulary is, is shorter."""
_TEMPLATE: Final = b"tokenizer.chat_template"
_CONTEXT: Final = re.compile(rb"\.context_length\x04\x00\x00\x00(.{4})", re.DOTALL)
"""The key and the type of a number of 32 bits, and the number."""


class GgufError(Exception):
    """It is no GGUF file that can be used."""


class GgufHeader(NamedTuple):
    """What a file says about its model."""

    size: int
    """The file's size in bytes."""
    has_chat_template: bool
    context: int
    """The tokens that a conversation may have."""


def read_header(path: Path) -> GgufHeader:
    """Return what a GGUF file says, whose keys are found by their names:
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Raises `GgufError`, and `OSError`."""
    with open_regular(path) as file:
        begin = file.read(8)
        if len(begin) < 8 or not begin.startswith(_MAGIC):
            raise GgufError("it is no GGUF file")
        version = int.from_bytes(begin[4:], "little")
        if version not in _VERSIONS:
            raise GgufError(f"its version of GGUF is {version}, expected 2 or 3")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            found = _CONTEXT.search(mapped, 0, _HEADER)
            trained = int.from_bytes(found[1], "little") if found else 0
            has_template = mapped.find(_TEMPLATE, 0, _HEADER) >= 0
            size = len(mapped)
    return GgufHeader(size, has_template, min(trained or LONGEST_CONTEXT, LONGEST_CONTEXT))


def needed_bytes(header: GgufHeader) -> int:
    """Roughly the memory that its server takes at most: contexts take half of what the weights
    take, and more than that in the smallest models."""
    return header.size * 3 // 2 + ((_LEAST_CONTEXTS_MIB + PROMPT_CACHE_MIB) << 20)


def free_bytes() -> int | None:
    """The memory that a new process may take; None where the system does not say."""
    if sys.platform != "linux":
        with suppress(OSError, ValueError):
            # all of it: what of it is free, other systems do not say
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return None
    found = []
    with suppress(OSError):
        match = re.search(r"^MemAvailable: +(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
        found += [int(match[1]) << 10] if match else []
    with suppress(OSError, ValueError):
        # the limit of a container; "max" where there is none
        limit = int(_text("/sys/fs/cgroup/memory.max"))
        found.append(max(0, limit - int(_text("/sys/fs/cgroup/memory.current"))))
    return min(found, default=None)


def _text(path: str) -> str:
    return Path(path).read_text("ascii", "replace")


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def extra_problem() -> Problem | None:
    """A problem where the package that runs local models is missing. Does not import it."""
    if find_spec(EXTRA) is not None:
        return None
    what = f"a language model on this machine needs the package {EXTRA}, which is not installed"
    return Problem(what, hint=INSTALL_EXTRA)


def unfit_reason(model: str, root: Path, environ: Mapping[str, str]) -> Problem | None:
    """Why this local model cannot be run here, without its place in the configuration; None if
    nothing is known to stop it. Raises `InputError`."""
    lacks = extra_problem()
    if lacks is not None:
        return lacks
    path = model_file(model, root, environ)
    try:
        header = read_header(path)
    except (OSError, GgufError) as error:
        return _unreadable(model, path, error)
    if not header.has_chat_template:
        what = f"{path} has no chat template: it is a base model, which continues any text for ever"
        return Problem(what, hint="take the file of an instruct or chat model")
    needed, free = needed_bytes(header), free_bytes()
    if free is not None and needed > free:
        what = f"{path} needs about {gigabytes(needed)} of memory, and {gigabytes(free)} are free"
        return Problem(what, hint="take a smaller model or quantization, or end other programs")
    return None


def _unreadable(model: str, path: Path, error: Exception) -> Problem:
    if isinstance(error, FileNotFoundError) and not is_file_name(model):
        hint = f"`{KNOWN_MODELS[model].command}` gets it"
        return Problem(f"the file of `{model}` is not there: {path}", hint=hint)
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__
        hint = "`model` is a path from the workspace's folder to a GGUF file"
        return Problem(f"{path} cannot be read: {why}", hint=hint)
    return Problem(f"{path} is not usable: {error}", hint="name a GGUF file, as llama.cpp reads it")
