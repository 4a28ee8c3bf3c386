"""Asks whether a workspace may send, import and connect to what it names, before any of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.cli.console import tell
from engine.cli.session import Session
from engine.trust import Exposure, Trust, UntrustedError, screenful


def require_trust(session: Session) -> None:
    """Raise `UntrustedError` for what nobody has allowed."""
    exposures = session.exposures
    if not Trust(session.workspace.root).covers(exposures):
        raise UntrustedError(session.workspace.root, exposures)


def pass_gate(session: Session, arguments: argparse.Namespace) -> None:
    """As `require_trust`, but allows it with `--trust`, and asks on a terminal."""
    root, exposures = session.workspace.root, session.exposures
    if not allowed(root, exposures, trusts=getattr(arguments, "trust", False)):
        raise UntrustedError(root, exposures)


def allowed(root: Path, exposures: Sequence[Exposure], *, trusts: bool) -> bool:
    """Whether these are allowed, by now."""
    trust = Trust(root)
    if trust.covers(exposures):
        return True
    if not trusts:
        if not sys.stdin.isatty():
            return False
        for line in screenful(root, exposures):
            tell(line)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            return False
    trust.allow(exposures)
    return True
