"""Whether a local model can be run here, found out without running it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from engine.errors import Problem
from engine.local_models import KNOWN_MODELS, is_file_name, model_file
from engine.providers.local.gguf import GgufError, GgufHeader, read_header

SLOTS: Final = 2
"""Replies that the server of a model writes at once. Each takes memory for a whole context, and on
a processor four were only a quarter faster than one after the other."""
LONGEST_CONTEXT: Final = 8_192
"""Tokens of a conversation, unless the model was trained for fewer."""
PROMPT_CACHE_MIB: Final = 256
"""The most memory for the beginnings of conversations that are not being continued right now."""
_BATCH: Final = 512
"""Tokens that are read at once; as many rows of numbers, one for each word known, are kept."""
EXTRA: Final = "xllamacpp"
INSTALL_EXTRA: Final = "pip install 'crosswind[local]', or pipx inject crosswind xllamacpp"


def thread_count() -> int:
    """One for each two processors of this process. A processor is often half of a core, and on two
    busy ones two threads took ten times as long as one."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, processors // 2)


def context_size(header: GgufHeader) -> int:
    """The tokens that a conversation may have."""
    return min(header.context or LONGEST_CONTEXT, LONGEST_CONTEXT)


def needed_bytes(header: GgufHeader) -> int:
    """Roughly the memory that its server takes at most."""
    contexts = SLOTS * context_size(header) * header.bytes_per_token
    scratch = 4 * _BATCH * header.vocabulary
    return header.size + contexts + scratch + (PROMPT_CACHE_MIB << 20)


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
