"""Taking keys out of text that others wrote, before anybody sees it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "[hidden]"
LONGEST: Final = 300
"""Characters of a server's own words that are kept."""
_READ: Final = 2048
"""Characters that are looked through for them. Whoever writes more is not heard out: the time that
a pattern takes is no stranger's to decide."""

_SHORTEST_SECRET: Final = 4
_TELLTALE: Final = 6
"""So many first characters of a key give away that the rest is part of it."""
_SHOWN_OF_THE_END: Final = 4
"""So many last characters of a key stand behind dots where a server masks the rest of it."""

_LOOKS_SECRET: Final = re.compile(
    r"""\b(?:sk|pk|rk|xai|gsk|key|AIza)[-_][\w*.…-]{6,}     # how providers begin their keys
      | (?i:\bbearer\s++)[\w*.…~+/=-]{4,}
      | (?<![\w.-])[\w.-]*+\*{3,}[\w.*-]*                   # masked by the server
    """,
    re.VERBOSE,
)


_SEVERAL: Final = re.compile(rf"(?:{re.escape(HIDDEN)}){{2,}}")
"""Parts of one key."""


class Redactor:
    """Knows the keys of one account in every spelling a server may echo. Shows none itself."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # a key of three letters stands in every other word; to hide those would hide the message
        self._secrets = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]

    # Worked out when a text is to be redacted, which most calls never have.

    @cached_property
    def _spellings(self) -> list[str]:
        spellings = {text for secret in self._secrets for text in _spellings(secret)}
        # the longest first: an alternation takes the first that fits, and a short spelling may be
        # part of a long one
        return sorted(spellings, key=len, reverse=True)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        long = [secret for secret in self._secrets if len(secret) > 2 * _TELLTALE]
        # some servers show a key in part: what begins or ends like one is taken for it
        beginnings = {secret[:_TELLTALE] for secret in long}
        ends = {secret[-_SHOWN_OF_THE_END:] for secret in long}
        parts = [re.escape(text) for text in self._spellings]
        parts += [re.escape(text) + r"[\w*.…-]*" for text in sorted(beginnings)]
        parts += [r"(?:\.\.|…|\*)" + re.escape(text) for text in sorted(ends)]
        return re.compile("|".join(parts)) if parts else None

    def __repr__(self) -> str:
        return "Redactor()"

    def __call__(self, text: str) -> str:
        """The text without keys, on one line, and cut to a length that a table can show."""
        text = self.hidden(self._cut(text))
        # half a character, which a server may send escaped, cannot be written anywhere
        text = text.encode("utf-8", "replace").decode()
        # also what is not this account's: a gateway may tell of its own keys
        text = _SEVERAL.sub(HIDDEN, _LOOKS_SECRET.sub(HIDDEN, text))
        text = " ".join(text.split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

    def hidden(self, text: str) -> str:
        """The text without these keys, else as it is. It must have been bounded before."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def _cut(self, text: str) -> str:
        """The beginning of it, without a key of which only the first part is left."""
        if len(text) <= _READ:
            return text
        text = text[:_READ]
        begun = (_begun(text, spelling) for spelling in self._spellings)
        return text[: _READ - max(begun, default=0)]


def _begun(text: str, spelling: str) -> int:
    """How many of its last characters are the first ones of this spelling, but not all of it."""
    longest = min(len(spelling) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(spelling[:n])), 0)


def _spellings(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "replace")
    found = {secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
    found.add("".join(f"%{byte:02X}" for byte in raw))
    found.add(raw.hex())
    # a gateway tells which key it did not find by what it keeps of each
    found.add(hashlib.sha256(raw).hexdigest())
    for before in (b"", b" ", b"  "):
        # what stands before a key in the encoded text shifts it by up to two bytes; the first and
        # last characters depend on the neighbours, those between do not
        text = base64.b64encode(before + raw).decode("ascii").rstrip("=")
        inner = text[4:-1] if before else text[:-1]
        if len(inner) >= _SHORTEST_SECRET * 2:
            found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {text for text in found if len(text) >= _SHORTEST_SECRET}
