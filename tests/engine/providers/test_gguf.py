"""What the file of a local model says about it, and which files are not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.providers.local.fitness import GgufError, GgufHeader, needed_bytes, read_header
from tests.gguf_files import gguf, write_gguf


def test_its_size_its_template_and_its_context_are_read(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", size=98_000_000)
    assert read_header(path) == GgufHeader(98_000_000, True, 2048)
    assert needed_bytes(read_header(path)) == 147_000_000 + (640 << 20)
    path.write_bytes(gguf({"general.architecture": "x", "x.context_length": 131_072}))
    assert read_header(path)[1:] == (False, 8192)
    path.write_bytes(gguf({"general.architecture": "x"}))
    assert read_header(path)[1:] == (False, 8192)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it is no GGUF file"),
        (b"hello, I am a text", "it is no GGUF file"),
        (gguf(version=1), "its version of GGUF is 1, expected 2 or 3"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(GgufError) as refused:
        read_header(path)
    assert str(refused.value) == fault
