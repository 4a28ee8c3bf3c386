"""Writes the headers of GGUF files."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

MODEL: Final[Mapping[str, Any]] = {
    "general.architecture": "llama",
    "llama.context_length": 2048,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
    "tokenizer.ggml.scores": [0.5, 1.5],
    "tokenizer.chat_template": "{{ messages }}",
}
"""What the file of a small chat model says."""


def gguf(values: Mapping[str, Any] = MODEL, *, version: int = 3) -> bytes:
    """A file with this header, and without any tensor."""
    keys = b"".join(
        _text(key) + _typed(value) for key, value in values.items() if value is not None
    )
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(values)) + keys


def write_gguf(path: Path, *, size: int = 0, **changed: Any) -> Path:
    """Write the file of a chat model of at least this size, which takes no space on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = gguf({**MODEL, **changed})
    with path.open("wb") as file:
        file.write(content)
        file.truncate(max(size, len(content)))
    return path


def _typed(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + _text(value)
        case int():
            return struct.pack("<II", 4, value)
        case list():
            kind = 8 if isinstance(value[0], str) else 6
            items = [_text(one) if kind == 8 else struct.pack("<f", one) for one in value]
            return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(items)
        case _:
            raise TypeError(value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
