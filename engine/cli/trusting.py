"""Asks whether a workspace may send, import and connect to what it names, before any of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from engine.cli.commands.typed import Spends
from engine.cli.console import says_yes, tell
from engine.cli.session import Session
from engine.trust import Permission, Trust, UntrustedError, screenful


def pass_gate(session: Session, arguments: Spends) -> None:
    """Allow it with `--trust`, and ask on a terminal. Raises `UntrustedError` for what nobody has
    allowed."""
    root, permissions = session.workspace.root, session.permissions
    if not allowed(root, permissions, trusts=arguments.trust):
        raise UntrustedError(root, permissions)


def allowed(root: Path, permissions: Sequence[Permission], *, trusts: bool) -> bool:
    """Whether these are allowed, by now."""
    trust = Trust(root)
    if trust.covers(permissions):
        return True
    if not trusts:
        if not sys.stdin.isatty():
            return False
        for line in screenful(root, permissions):
            tell(line)
        if not says_yes():
            return False
    trust.allow(permissions)
    return True
