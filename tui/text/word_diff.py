"""What became of a text, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final

from tui.text.ink import Ink, Styled

MOST_WORDS: Final = 3_000
"""Of both texts; of longer ones only the new is shown."""
LONGEST: Final = 65_536
"""Characters of a text that are looked through; of longer ones only the new is shown."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(before: str, after: str) -> tuple[str, tuple[Styled, ...]]:
    """One text in which `[-what went-]` and `{+what came+}` are marked, also without colours."""
    if before == after or max(len(before), len(after)) > LONGEST:
        return after, ()
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > MOST_WORDS:
        return after, ()
    text = ""
    # what stands very often in a long text is left to its neighbours to match: else a text of one
    # sign again and again takes half a minute
    marks: list[Styled] = []
    for kind, first, last, start, end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            text += "".join(new[start:end])
            continue
        for words, form, ink in (
            ("".join(old[first:last]), "[-{}-]", Ink.BAD),
            ("".join(new[start:end]), "{{+{}+}}", Ink.GOOD),
        ):
            if words:
                marked = form.format(words)
                marks.append(Styled(len(text), len(text) + len(marked), ink))
                text += marked
    return text, tuple(marks)
