"""By what a message is known to be the one that was stored."""

from __future__ import annotations

from hashlib import blake2b
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
