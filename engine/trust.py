"""What a workspace may send, import and connect to beyond what is usual: what a person allowed.

Every value of a variable passes `Trust.require` on its way out, as `Environment` gives none without
knowing where it goes. What was allowed is remembered outside of the workspace, by its real path.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.addresses import USUAL_VARIABLES
from engine.display import one_line
from engine.errors import InputError, Problem
from engine.files import read_regular, replace_file

ALLOW_ALL: Final = "CROSSWIND_TRUST"
"""An environment variable: `all` trusts every workspace, for machines that run nobody else's."""
NOWHERE: Final = ""
"""The destination of a value that stays in this process."""
NOT_ALLOWED: Final = "nobody has allowed this workspace what it would do, so nothing was sent: "
_LONGEST: Final = 200
_MOST_LINES: Final = 16


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """Something that a workspace does and that its user must have allowed."""

    to: str
    """Where it goes: the beginning of an address; empty for code that is imported."""
    what: str
    """The name of a variable; `package.module:function`; empty for a scheduler."""

    @property
    def is_usual(self) -> bool:
        """Whether it is a provider's own key on its way to this provider."""
        own = USUAL_VARIABLES.get(self.what)
        return own is not None and beginning_of(own) == self.to

    @property
    def digest(self) -> str:
        return _digest(json.dumps([self.to, self.what]))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def beginning_of(address: str) -> str:
    """Return scheme, host and port of an address, which may have unexpanded variables."""
    scheme, _, rest = address.strip().partition("://")
    host = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    return f"{scheme.lower()}://{host.rpartition('@')[2].lower()}"


class UntrustedError(InputError):
    """Something would be sent, imported or connected to that nobody has allowed."""

    def __init__(self, root: Path, permissions: Collection[Permission]) -> None:
        self.permissions = permissions
        lines = list(in_words(permissions))
        more = f"; and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        hint = (
            "if you trust whoever wrote it: in a terminal, all of it is shown and asked about; "
            "`--trust` allows it"
        )
        what = f"{NOT_ALLOWED}{'; '.join(lines[:_MOST_LINES])}"
        super().__init__(Problem(f"{what}{more}", root, hint=hint))


def in_words(permissions: Iterable[Permission]) -> Iterator[str]:
    """Yield a line for each host, a known provider's key going elsewhere first, and for each
    function and scheduler."""
    by_host: dict[str, list[str]] = {}
    code, schedulers = [], []
    for permission in sorted(permissions):
        if not permission.to:
            code.append(permission.what)
        elif not permission.what:
            schedulers.append(permission.to)
        else:
            by_host.setdefault(permission.to, []).append(permission.what)

    def is_harmless(pair: tuple[str, list[str]]) -> bool:
        return not any(name in USUAL_VARIABLES for name in pair[1])

    for host, names in sorted(by_host.items(), key=is_harmless):
        known = [name for name in names if name in USUAL_VARIABLES]
        others = [name for name in names if name not in USUAL_VARIABLES]
        yield one_line(f"{', '.join([*known, *others])} to {host}", _LONGEST)
    yield from (one_line(f"the code of {call}, on this machine", _LONGEST) for call in code)
    yield from (one_line(f"the scheduler {one}", _LONGEST) for one in schedulers)


def screenful(root: Path, permissions: Collection[Permission]) -> Iterator[str]:
    """Yield the lines of the question whether to allow these."""
    lines = list(in_words(permissions))
    yield f"{one_line(str(root), _LONGEST)} has not been allowed to do this before. It would use:"
    yield from (f"  {line}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"  and {len(lines) - _MOST_LINES} more, which config.yaml names"
    yield "allow it, because you know who wrote its config.yaml and its code? [y/N]"


class Trust:
    """What a person allowed one workspace."""

    def __init__(self, root: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._root = root
        self._environ = environ
        self._allowed: frozenset[str] | None = None
        self._required: set[Permission] = set()
        """Those that were found to be usual or allowed: each call needs the same."""

    def require(self, permissions: Collection[Permission]) -> None:
        """Raise `UntrustedError` for those that are neither usual nor allowed."""
        if self._required.issuperset(permissions):
            return
        if missing := [one for one in permissions if not self._allows(one)]:
            raise UntrustedError(self._root, missing)
        self._required.update(permissions)

    def covers(self, permissions: Sequence[Permission]) -> bool:
        """Whether exactly these were allowed; those that are usual need not be."""
        wanted = {one.digest for one in permissions if not one.is_usual}
        return not wanted or self._trusts_all() or wanted == self._read()

    def allow(self, permissions: Sequence[Permission]) -> None:
        """Remember that a person allowed exactly these. Raises `InputError` where that cannot be
        written."""
        self._write(self._key(), [one.digest for one in permissions])
        self._allowed = None

    def is_agreed(self, words: str) -> bool:
        """Whether a person has agreed to what is said here of this workspace."""
        return _digest(words) in self._digests(self._agreed_key())

    def agree(self, words: Iterable[str]) -> None:
        """Remember that a person has agreed to this. Raises as `allow`."""
        key = self._agreed_key()
        self._write(key, [*self._digests(key), *map(_digest, words)])

    def _write(self, key: str, digests: Iterable[str]) -> None:
        path = self._path()
        kept = {**_content(path), key: sorted({*digests})}
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, json.dumps(kept, indent=1).encode(), mode=0o600)
        except OSError as error:
            hint = "let XDG_STATE_HOME name a folder that can be written"
            what = f"what was allowed cannot be remembered: {error.strerror or error}"
            raise InputError(Problem(what, path, hint=hint)) from error

    def _allows(self, permission: Permission) -> bool:
        return permission.is_usual or self._trusts_all() or permission.digest in self._read()

    def _trusts_all(self) -> bool:
        return os.environ.get(ALLOW_ALL) == "all"

    def _read(self) -> frozenset[str]:
        if self._allowed is None:
            self._allowed = self._digests(self._key())
        return self._allowed

    def _digests(self, key: str) -> frozenset[str]:
        digests = _content(self._path()).get(key, [])
        known = digests if isinstance(digests, list) else []
        return frozenset(one for one in known if isinstance(one, str))

    def _agreed_key(self) -> str:
        return f"agreed {self._key()}"

    def _key(self) -> str:
        return os.path.realpath(self._root)

    def _path(self) -> Path:
        state = Path(self._environ.get("XDG_STATE_HOME", ""))
        try:
            folder = state if state.is_absolute() else Path.home() / ".local" / "state"
        except RuntimeError:
            folder = Path(os.devnull)
        return folder / "crosswind" / "trust.json"


def _content(path: Path) -> dict[str, object]:
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(read_regular(path))
        if isinstance(content, dict):
            return content
    return {}
