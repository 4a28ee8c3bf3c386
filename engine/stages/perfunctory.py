"""Makes a message look hastily typed: lower case, typos, dropped punctuation.

It works word by word from one seed, so the roughened beginning of a message does not change when
the rest arrives.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final

from engine.providers.model import OnText

_SHORT: Final = {
    "you": "u",
    "are": "r",
    "because": "bc",
    "please": "pls",
    "though": "tho",
    "really": "rly",
    "people": "ppl",
    "probably": "prob",
    "okay": "ok",
    "going": "goin",
}
_WORD = re.compile(r"\S+\s*")
LONGEST = 65_536
"""The most characters of a message that are roughened, more than anybody types in haste; the rest
is passed on unchanged."""


class Roughener:
    """Roughens one message as it arrives. Call `feed` with its pieces, then `finish`."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._held: list[str] = []
        self._read = 0
        self._first = True

    def feed(self, piece: str) -> str:
        """Return the roughened text so far, except for the last word, which may still grow."""
        room = LONGEST - self._read
        if len(piece) > room:
            self._read = LONGEST
            rest = piece[room:]
            self._held.append(piece[:room])
            return "".join(self._roughen_word(word) for word in self._take_words()) + rest
        self._read += len(piece)
        goes_on = bool(self._held) and not self._held[-1][-1].isspace()
        if piece:
            self._held.append(piece)
        if piece.isspace() or (goes_on and piece.split(maxsplit=1) == [piece]):
            return ""  # it completes no word, so the held text need not be split again
        words = self._take_words()
        self._held = words[-1:]
        return "".join(self._roughen_word(word) for word in words[:-1])

    def finish(self) -> str:
        """Return the rest, after the last piece has been fed."""
        return "".join(self._roughen_word(word) for word in self._take_words()).rstrip()

    def _take_words(self) -> list[str]:
        words, self._held = _WORD.findall("".join(self._held)), []
        return words

    def _roughen_word(self, word: str) -> str:
        draw = [self._random.random() for _ in range(4)]
        body, space = word.rstrip(), word[len(word.rstrip()) :]
        if self._first and draw[0] < 0.12 and body == "I":
            self._first = False
            return ""  # sentence fragment: the subject is omitted
        self._first = False
        if draw[0] < 0.85:
            body = body.lower()
        if draw[1] < 0.75:
            body = body.replace("'", "").replace("\u2019", "")
        if draw[2] < 0.5:
            body = body.rstrip(".,;:")
        core = body.strip(".,;:!?").lower()
        if core in _SHORT and draw[3] < 0.25:
            body = body.lower().replace(core, _SHORT[core])
        elif len(core) > 4 and core.isalpha() and draw[3] > 0.95:
            body = self._slip(body)
        return body + space

    def _slip(self, word: str) -> str:
        """Swap two adjacent letters or drop one; never the first."""
        at = 1 + self._random.randrange(len(word) - 3)
        if self._random.random() < 0.6:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + word[at + 1 :]


def roughen(text: str, seed: int) -> str:
    """Roughen a whole message, as `Roughener` does piece by piece with the same seed."""
    rough = Roughener(seed)
    return rough.feed(text) + rough.finish() or text


def roughened(seed: int, on_text: OnText) -> OnText:
    """Wrap `on_text` so that it receives the text as `roughen` produces it."""
    rough = Roughener(seed)

    def hear(piece: str | None) -> None:
        nonlocal rough
        if piece is None:
            rough = Roughener(seed)
            on_text(None)
        else:
            text = rough.feed(piece)
            if text:
                on_text(text)

    return hear
