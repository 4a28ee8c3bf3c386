"""Digests and seeds: the same input gives the same one, in every process and Python version."""

from __future__ import annotations

import hashlib
import json


def digest(value: object) -> str:
    """16 hexadecimal digits that stand for any JSON-like value; keys are sorted."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def seed_from(*parts: str | int) -> int:
    """A number from 0 to 2**63 - 1 for these parts, in this order."""
    joined = "\0".join(str(part) for part in parts)
    number = int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "big")
    return number >> 1
