"""Says which parts of a conversation were played by scripts instead of language models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

LABEL: Final = "offline:"
"""The prefix of every scripted model's label."""
MADE_BY_SCRIPTS: Final = "made with scripted models, which are not language models"

GENERATOR: Final = "generator"
USER: Final = "user model"
TARGET: Final = "target"
EVALUATOR: Final = "evaluator"
CHECKER: Final = "checker"

Pace = Literal["human", "instant"] | float
"""How fast a script speaks: at reading speed, all at once, or in words per second."""

Parts = Mapping[str, bool]
"""Whether a script played each part, in display order."""


def is_script(label: str) -> bool:
    return label.startswith(LABEL)


def all_scripts(parts: Parts) -> bool:
    """Whether scripts played all parts. The generator is ignored where others had a part."""
    spoke = [script for part, script in parts.items() if part != GENERATOR]
    return all(spoke or parts.values()) and any(parts.values())


def scripted_note(parts: Parts) -> str | None:
    """A clause that names the scripted parts; None where there are none."""
    return MADE_BY_SCRIPTS if all_scripts(parts) else scripts_in_words(parts)


def scripts_in_words(parts: Parts) -> str | None:
    """`the user model is a script, not a language model`."""
    names = [f"the {part}" for part, script in parts.items() if script]
    if not names:
        return None
    if len(names) == 1:
        return f"{names[0]} is a script, not a language model"
    return f"{', '.join(names[:-1])} and {names[-1]} are scripts, not language models"


def played_by(user_model: str, target: str, *, scripted: bool) -> dict[str, bool]:
    """Whether the user model and the target are scripts, by their labels. Both count as scripts
    where no label says so but the conversation is marked `scripted`."""
    parts = {USER: is_script(user_model), TARGET: is_script(target)}
    return dict.fromkeys(parts, True) if scripted and not any(parts.values()) else parts
