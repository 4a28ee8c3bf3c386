"""Digests and seeds that are stable across processes and Python versions."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

BATCH_MARK: Final = "crosswind"
"""What our names for batches begin with, so that a provider's list says whose they are."""

BATCH_ROUTE: Final = "batch"
"""The route of an attempt that was made in one."""


def digest(value: object) -> str:
    """16 hexadecimal digits for any JSON-like value, independent of the order of keys."""
    # not hash(), which is seeded differently in each process
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def seed_from(*parts: str | int) -> int:
    """A number from 0 to 2**63 - 1 that depends on the parts and their order."""
    joined = "\0".join(str(part) for part in parts)
    number = int.from_bytes(blake2b(joined.encode(), digest_size=8).digest(), "big")
    # 63 bits: SQLite and most servers use signed 64-bit integers
    return number >> 1


def message_digest(speaker: str, text: str) -> bytes:
    """16 bytes that identify a stored message by its content."""
    return digest_of(speaker, text.encode())


def digest_of(speaker: str, encoded: bytes) -> bytes:
    """As `message_digest`, for text that is already UTF-8."""
    # copies a started digest, so the speaker is hashed once and not for each of a million messages
    digest = _started_hash(speaker).copy()
    digest.update(encoded)
    return digest.digest()


@lru_cache(8)  # bounded: in a damaged store, a speaker may be anything
def _started_hash(speaker: str) -> blake2b:
    return blake2b(f"{speaker}\0".encode(), digest_size=16)


@cache
def program_digest() -> str:
    """A digest of all the engine's modules: another version may read or write files differently."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
