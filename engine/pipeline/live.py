"""What is being said at this moment: one buffer for each message, only ever added to.

Written on the engine's thread and read on any other: each method does one step that Python does
not divide, or works on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech


class Voice:
    """The buffer of one message that is being spoken."""

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self._pieces: list[str] = []
        self.length = 0
        """Characters."""

    def hear(self, piece: str | None) -> None:
        """Add what arrived; None voids what was heard, as the message begins anew."""
        if piece is None:
            self._pieces, self.length = [], 0
            # another message to whoever has read the beginning of the first
            self.speech = replace(self.speech, began=time.monotonic())
        else:
            self._pieces.append(piece)
            self.length += len(piece)

    def text(self) -> str:
        return "".join(self._pieces)


class LiveBoard:
    """All messages that are being spoken, one for each conversation."""

    def __init__(self) -> None:
        self._voices: dict[tuple[str, ConversationKey], Voice] = {}

    def begin(self, speech: Speech) -> Voice:
        voice = Voice(speech)
        self._voices[speech.benchmark, speech.key] = voice
        return voice

    def end(self, voice: Voice) -> None:
        """Forget it, once its message is a row of the store."""
        self._voices.pop((voice.speech.benchmark, voice.speech.key), None)

    def speaking(self) -> Sequence[Speech]:
        """Longest running first."""
        voices = list(self._voices.values())
        return sorted((voice.speech for voice in voices), key=lambda speech: speech.began)

    def said(self) -> dict[str, int]:
        """How many characters of it were said so far, by target."""
        found: dict[str, int] = {}
        for voice in list(self._voices.values()):
            target = voice.speech.key.target_id
            found[target] = found.get(target, 0) + voice.length
        return found

    def text(self, benchmark: str, key: ConversationKey, cursor: int) -> LiveText | None:
        """What was said of it from character `cursor` on; a cursor beyond the end, as after a
        message that began anew, is answered from the beginning."""
        voice = self._voices.get((benchmark, key))
        if voice is None:
            return None
        said = voice.text()
        start = cursor if cursor <= len(said) else 0
        return LiveText(voice.speech, said[start:], len(said))
