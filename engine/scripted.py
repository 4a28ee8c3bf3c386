"""Which parts scripts played, and how that is said: of what they did, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

LABEL: Final = "offline:"
"""How the label of every scripted model begins."""
MADE_BY_SCRIPTS: Final = "made with scripted models, which are not language models"

GENERATOR: Final = "generator"
USER: Final = "user model"
TARGET: Final = "target"
EVALUATOR: Final = "evaluator"
CHECKER: Final = "checker"

Pace = Literal["human", "instant"] | float
"""How fast a script speaks: at a readable speed, all at once, or words a second."""

Parts = Mapping[str, bool]
"""By part, in the order in which they are told: whether a script played it."""


def is_script(label: str) -> bool:
    return label.startswith(LABEL)


def all_scripts(parts: Parts) -> bool:
    """Whether scripts did all of it. Who wrote the scenario has no say where others spoke."""
    spoke = [script for part, script in parts.items() if part != GENERATOR]
    return all(spoke or parts.values()) and any(parts.values())


def scripted_note(parts: Parts) -> str | None:
    """A clause that says which parts scripts played; None where they played none."""
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
    """The parts of a conversation, by the labels of its models; of both where it is only known that
    a script had a part."""
    parts = {USER: is_script(user_model), TARGET: is_script(target)}
    return dict.fromkeys(parts, True) if scripted and not any(parts.values()) else parts
