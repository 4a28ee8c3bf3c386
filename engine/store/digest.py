"""By what a message is known to be the one that was stored."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from engine.benchmark import Speaker

_BEGUN: Final = {
    speaker.value: blake2b(f"{speaker}\0".encode(), digest_size=16) for speaker in Speaker
}


def message_digest(speaker: str, text: str) -> bytes:
    return digest_of(speaker, text.encode())


def digest_of(speaker: str, encoded: bytes) -> bytes:
    """The same for text that is encoded already."""
    begun = _BEGUN.get(speaker)
    digest = blake2b(f"{speaker}\0".encode(), digest_size=16) if begun is None else begun.copy()
    digest.update(encoded)
    return digest.digest()


@cache
def program_digest() -> str:
    """Of all modules of the engine: another version of it may write or read files otherwise."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
