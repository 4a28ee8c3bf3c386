"""The texts that are sent to models, one file each; names after `$` are filled in."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from string import Template


@cache
def prompt_text(name: str) -> str:
    """The text of the prompt file `name`, which is given without `.txt`."""
    return resources.files(__name__).joinpath(f"{name}.txt").read_text("utf-8").strip("\n")


def render(name: str, /, **values: str) -> str:
    """The prompt `name` with its `$names` filled in. Raises KeyError for a missing or unknown
    name."""
    text, names = _template(name)
    unused = values.keys() - names
    if unused:
        raise KeyError(f"prompt {name} has no ${min(unused)}")
    return text.substitute(values)


def without_marks(text: str) -> str:
    """The text with `<` and `>` escaped, so that it cannot close the tags around it."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _template(name: str) -> tuple[Template, frozenset[str]]:
    text = Template(prompt_text(name))
    return text, frozenset(text.get_identifiers())


@cache
def prompt_digest(*names: str) -> str:
    """A digest of these prompts' texts, for fingerprints of results."""
    digest = hashlib.blake2b(digest_size=8)
    for name in names:
        digest.update(prompt_text(name).encode())
        digest.update(b"\0")
    return digest.hexdigest()
