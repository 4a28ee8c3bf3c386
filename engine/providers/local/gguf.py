"""Reads what a GGUF file says about its model: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.files import open_regular

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_SCALARS: Final = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""The format of each type of number."""
_TEXT: Final = 8
_ARRAY: Final = 9
_MOST_KEYS: Final = 10_000
_KEPT_ITEMS: Final = 4_096
"""Longer lists, which are vocabularies, are skipped and count only by their length."""
_LONGEST_TEXT: Final = 1 << 20
_NO_GGUF: Final = "it is no GGUF file"


class GgufError(Exception):
    """It is not a GGUF file, or damaged."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the file says about its model."""

    size: int
    """The file's size in bytes."""
    values: Mapping[str, Any] = field(repr=False)
    """Numbers, texts and short lists of numbers by key; of a long list, its length."""

    @property
    def has_chat_template(self) -> bool:
        return bool(self.values.get("tokenizer.chat_template"))

    @property
    def context(self) -> int | None:
        """The most tokens that the model was trained for."""
        return self._number("context_length")

    @property
    def bytes_per_token(self) -> int:
        """The memory that a token of the context takes: keys and values of every layer, in 16
        bits."""
        layers, heads = self._number("block_count") or 0, self._number("attention.head_count") or 1
        width = (self._number("embedding_length") or 0) // max(heads, 1)
        key = self._number("attention.key_length") or width
        value = self._number("attention.value_length") or width
        kept = self._value("attention.head_count_kv")
        kept_heads = sum(kept) if isinstance(kept, list) else layers * (kept or heads)
        return 2 * kept_heads * (key + value)

    @property
    def vocabulary(self) -> int:
        """The number of its tokens."""
        listed = self.values.get("tokenizer.ggml.tokens")
        return listed if isinstance(listed, int) else 0

    def _value(self, key: str) -> Any:
        return self.values.get(f"{self.values.get('general.architecture')}.{key}")

    def _number(self, key: str) -> int | None:
        value = self._value(key)
        # some architectures have a number for each layer
        value = max(value, default=0) if isinstance(value, list) else value
        return value if isinstance(value, int) and value > 0 else None


def read_header(path: Path) -> GgufHeader:
    """Raises `GgufError`, and `OSError`."""
    with open_regular(path) as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            raise GgufError(_NO_GGUF) from None
        with mapped:
            try:
                cursor = _Cursor(mapped)
                tensors = _tensor_count(cursor)
                header = GgufHeader(len(mapped), _values(cursor))
                _refuse_cut(cursor, tensors, header)
                return header
            except struct.error:
                raise GgufError("it ends in the middle of its header") from None


@dataclass(slots=True)
class _Cursor:
    mapped: mmap.mmap
    at: int = 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.mapped, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self) -> str:
        length = self.number("<Q")
        if length > _LONGEST_TEXT:
            raise GgufError("its header is damaged")
        start = self.at
        self.skip(length)
        return self.mapped[start : self.at].decode("utf-8", "replace")

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self.mapped):
            raise struct.error

    def skip_text(self) -> None:
        self.skip(self.number("<Q"))


def _tensor_count(cursor: _Cursor) -> int:
    if cursor.mapped[:4] != _MAGIC:
        raise GgufError(_NO_GGUF)
    cursor.skip(4)
    version = cursor.number("<I")
    if version not in _VERSIONS:
        raise GgufError(f"its version of GGUF is {version}, expected 2 or 3")
    return int(cursor.number("<Q"))


def _values(cursor: _Cursor) -> dict[str, Any]:
    keys = cursor.number("<Q")
    if keys > _MOST_KEYS:
        raise GgufError("its header is damaged")
    return {cursor.text(): _value(cursor, cursor.number("<I")) for _ in range(keys)}


def _refuse_cut(cursor: _Cursor, tensors: int, header: GgufHeader) -> None:
    """Raises `GgufError` if a tensor would begin behind the end, as in a broken download."""
    begins = 0
    for _ in range(tensors):
        cursor.skip_text()
        cursor.skip(8 * cursor.number("<I"))  # its dimensions
        cursor.skip(4)  # its type
        begins = max(begins, cursor.number("<Q"))
    if tensors and cursor.at + begins >= header.size:
        raise GgufError("it ends in the middle of its weights, as after a broken download")


def _value(cursor: _Cursor, kind: int) -> Any:
    if kind == _TEXT:
        return cursor.text()
    if kind == _ARRAY:
        return _array(cursor)
    if kind not in _SCALARS:
        raise GgufError("its header is damaged")
    return cursor.number(_SCALARS[kind])


def _array(cursor: _Cursor) -> list[Any] | int:
    kind, length = cursor.number("<I"), int(cursor.number("<Q"))
    if kind == _TEXT:
        for _ in range(length):
            cursor.skip_text()
        return length
    if kind not in _SCALARS:
        raise GgufError("its header is damaged")
    if length <= _KEPT_ITEMS:
        return [cursor.number(_SCALARS[kind]) for _ in range(length)]
    cursor.skip(length * struct.calcsize(_SCALARS[kind]))
    return length
