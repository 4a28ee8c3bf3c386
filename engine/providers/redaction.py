"""Removes keys from text of others before anybody sees it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
LONGEST: Final = 300
"""Characters of a server's message that are kept."""
_READ: Final = 2048
"""Characters that are searched for keys. A longer text is cut, so that no server decides how long
the patterns take."""

# a shorter one would be found within ordinary words, and hide them
_SHORTEST_SECRET: Final = 4
_TELLTALE: Final = 6
"""The first characters of a key by which the rest of it is recognised."""
_SHOWN_OF_THE_END: Final = 4
"""The last characters of a key, which follow dots if a server masks the rest."""

_LOOKS_SECRET: Final = re.compile(
    r"""\b(?:sk|pk|rk|xai|gsk|key|AIza)[-_][\w*.…-]{6,}     # how providers begin their keys
      | (?i:\bbearer\s++)[\w*.…~+/=-]{4,}
      | (?<![\w.-])[\w.-]*+\*{3,}[\w.*-]*                   # masked by the server
    """,
    re.VERBOSE,
)


_SEVERAL: Final = re.compile(rf"(?:{re.escape(HIDDEN)}){{2,}}")
"""Several parts of one key."""


class Redactor:
    """Hides the keys of one account in every form in which a server may echo them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # a key of three letters occurs in many words, and hiding it would hide the message
        self._secrets = tuple(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)

    def __repr__(self) -> str:
        return "Redactor()"

    def __call__(self, text: str) -> str:
        """Return the text without keys, on one line, cut to `LONGEST` characters."""
        text = self.hidden(self._cut_short(text))
        # a lone surrogate, which a server may send escaped, cannot be encoded
        text = text.encode("utf-8", "replace").decode()
        # also keys of others: a gateway may mention its own
        text = _SEVERAL.sub(HIDDEN, _LOOKS_SECRET.sub(HIDDEN, text))
        text = " ".join(text.split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

    def hidden(self, text: str) -> str:
        """Return the text without these keys, otherwise unchanged. Its length must be bounded."""
        pattern = _pattern(self._secrets)
        return text if pattern is None else pattern.sub(HIDDEN, text)

    def _cut_short(self, text: str) -> str:
        """Cut the text, without leaving the first part of a key."""
        if len(text) <= _READ:
            return text
        text = text[:_READ]
        begun = (
            _partial_match_length(text, spelling) for spelling in _all_spellings(self._secrets)
        )
        return text[: _READ - max(begun, default=0)]


def secret_parts(headers: Mapping[str, str]) -> Iterator[str]:
    """The values of headers, and what of them is secret by itself: a key behind its scheme, a
    password behind a user's name."""
    for value in headers.values():
        credentials = value.partition(" ")[2].strip()
        yield from (value, credentials, credentials.partition(":")[2])


def _partial_match_length(text: str, spelling: str) -> int:
    """Return how many of the last characters begin this form of a key without completing it."""
    longest = min(len(spelling) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(spelling[:n])), 0)


# Made on first use, as many calls have nothing to redact; and once, as each call has a redactor of
# its own with the keys of the same few accounts.


@lru_cache(maxsize=64)
def _all_spellings(secrets: tuple[str, ...]) -> Sequence[str]:
    spellings = {text for secret in secrets for text in _spellings(secret)}
    # longest first: an alternation takes the first match, and a short form may be part of a
    # long one
    return sorted(spellings, key=len, reverse=True)


@lru_cache(maxsize=64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    long = [secret for secret in secrets if len(secret) > 2 * _TELLTALE]
    # some servers show a part of a key, so what begins or ends like one is hidden
    beginnings = {secret[:_TELLTALE] for secret in long}
    ends = {secret[-_SHOWN_OF_THE_END:] for secret in long}
    parts = [re.escape(text) for text in _all_spellings(secrets)]
    parts += [re.escape(text) + r"[\w*.…-]*" for text in sorted(beginnings)]
    parts += [r"(?:\.\.|…|\*)" + re.escape(text) for text in sorted(ends)]
    return re.compile("|".join(parts)) if parts else None


def _spellings(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "replace")
    spellings = {secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
    spellings.add("".join(f"%{byte:02X}" for byte in raw))
    spellings.add(raw.hex())
    # a gateway names an unknown key by the hash that it keeps
    spellings.add(hashlib.sha256(raw).hexdigest())
    for before in (b"", b" ", b"  "):
        # what precedes a key in the encoded text shifts it by up to two bytes; its first and last
        # characters depend on the neighbours, those between do not
        text = base64.b64encode(before + raw).decode("ascii").rstrip("=")
        inner = text[4:-1] if before else text[:-1]
        if len(inner) >= _SHORTEST_SECRET * 2:
            spellings |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {text for text in spellings if len(text) >= _SHORTEST_SECRET}
