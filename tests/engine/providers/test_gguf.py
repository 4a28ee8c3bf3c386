"""What the file of a local model says about it, and which files are not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.providers.local.fitness import context_size, needed_bytes
from engine.providers.local.gguf import GgufError, read_header
from tests.gguf_files import MODEL, gguf, write_gguf


def test_the_memory_it_needs_is_computed_from_its_header(tmp_path: Path) -> None:
    header = read_header(write_gguf(tmp_path / "m.gguf", size=98_000_000))
    assert header.has_chat_template
    assert context_size(header) == 2048
    assert header.vocabulary == 3
    # 30 layers of 3 heads of 64 numbers, keys and values, in 16 bits
    assert header.bytes_per_token == 30 * 3 * 64 * 2 * 2
    cache, scratch = 256 << 20, 4 * 512 * 3
    assert needed_bytes(header) == 98_000_000 + 2 * 2048 * 23_040 + scratch + cache


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "it is no GGUF file"),
        (b"hello, I am a text", "it is no GGUF file"),
        (gguf(version=1), "its version of GGUF is 1, expected 2 or 3"),
        (gguf()[:200], "it ends in the middle of its header"),
        (gguf(offsets=[0, 4096])[:-4], "it ends in the middle of its header"),
        (
            gguf(offsets=[0, 4096]) + b"0" * 4096,
            "it ends in the middle of its weights, as after a broken download",
        ),
        (gguf()[:24] + b"\xff" * 64, "its header is damaged"),
        (b"GGUF\x03" + b"\0" * 11 + b"\xff" * 8, "its header is damaged"),
        (gguf({"a": "b"})[:-13] + b"\x63" + b"\0" * 12, "its header is damaged"),
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


def test_a_model_of_unknown_architecture_needs_its_own_size(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf({"tokenizer.chat_template": MODEL["tokenizer.chat_template"]}))
    assert needed_bytes(read_header(path)) == path.stat().st_size + (256 << 20)
