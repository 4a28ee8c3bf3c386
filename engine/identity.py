"""Digests and seeds: the same input gives the same one, in every process and Python version."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path


def digest(value: object) -> str:
    """16 hexadecimal digits that stand for any JSON-like value; keys are sorted."""
    # blake2b and not hash(): that one has another seed in each process
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def seed_from(*parts: str | int) -> int:
    """A number from 0 to 2**63 - 1 for these parts, in this order."""
    joined = "\0".join(str(part) for part in parts)
    number = int.from_bytes(blake2b(joined.encode(), digest_size=8).digest(), "big")
    # 63 bits, as SQLite and most servers have signed numbers of 64
    return number >> 1


def message_digest(speaker: str, text: str) -> bytes:
    """16 bytes by which a message is known to be the one that was stored."""
    return digest_of(speaker, text.encode())


def digest_of(speaker: str, encoded: bytes) -> bytes:
    """As `message_digest`, for text that is UTF-8 already."""
    # a copy of a begun digest: the speaker is hashed once and not with each of a million messages
    digest = _begun(speaker).copy()
    digest.update(encoded)
    return digest.digest()


@lru_cache(8)  # of a damaged store, a speaker may be anything
def _begun(speaker: str) -> blake2b:
    return blake2b(f"{speaker}\0".encode(), digest_size=16)


@cache
def program_digest() -> str:
    """A digest of all modules of the engine: another version of it may write or read files
    otherwise."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
