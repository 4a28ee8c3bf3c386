"""Everything that is said to a model, one text file each; names after `$` are filled in."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from string import Template


@cache
def prompt_text(name: str) -> str:
    """The text of the prompt file `name`, without its ending."""
    return resources.files(__name__).joinpath(f"{name}.txt").read_text("utf-8").strip("\n")


def render(name: str, /, **values: str) -> str:
    """The prompt `name` with its `$names` filled in; a name too few or too many is a KeyError."""
    text, names = _template(name)
    unused = values.keys() - names
    if unused:
        raise KeyError(f"prompt {name} has no ${min(unused)}")
    return text.substitute(values)


def without_marks(text: str) -> str:
    """The text with `<` and `>` escaped: nothing in it can close the marks around it."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _template(name: str) -> tuple[Template, frozenset[str]]:
    text = Template(prompt_text(name))
    return text, frozenset(text.get_identifiers())


@cache
def prompt_digest(*names: str) -> str:
    """What a fingerprint holds of these prompts: another text, another digest."""
    digest = hashlib.blake2b(digest_size=8)
    for name in names:
        digest.update(prompt_text(name).encode())
        digest.update(b"\0")
    return digest.hexdigest()
