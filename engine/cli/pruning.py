"""`crosswind prune`: removes replaced takes and old notes from the store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from engine.cli.commands.upkeep import PruneCommand
from engine.cli.console import goes_on_for_good, out, tell
from engine.cli.session import Session, open_session
from engine.errors import DONE, STOPPED, InputError, Problem
from engine.pipeline.files import store_counts
from engine.store.database import open_store
from engine.store.lock import hold_workspace
from engine.store.maintenance import plan_prune, prune, shrink


def run_prune(arguments: PruneCommand) -> int:
    session = open_session(arguments.workspace)
    before = _cutoff(arguments.older_than)
    with session.reader() as reader:
        plan = plan_prune(reader, before)
    if plan.is_empty:
        out("there is nothing to remove")
        return DONE
    if arguments.dry_run:
        out(f"would be removed: {plan}")
        return DONE
    if not arguments.yes and not goes_on_for_good(f"removes {plan}, permanently"):
        return STOPPED
    return _prune(session, before)


def _cutoff(days: int | None) -> datetime | None:
    if days is None:
        return None
    if not 0 <= days <= 36_500:
        raise InputError(Problem(f"--older-than {days}: expected days, from 0 to 36500"))
    return datetime.now(UTC) - timedelta(days=days)


def _prune(session: Session, before: datetime | None) -> int:
    with (
        hold_workspace(session.workspace.root) as hold,
        open_store(session.store_path, engine=hold.engine) as store,
    ):
        plan = plan_prune(store.reader, before)
        prune(store, plan)
        asyncio.run(store_counts(session.workspace, session.config, store))
        out(f"removed: {plan}")
        freed = shrink(store)
        if freed is None:
            tell(
                f"note: {store.path.name} keeps its size, as the disk has no room to rewrite it; "
                "the next runs use what is free in it"
            )
        else:
            out(f"{store.path.name} is smaller by {freed / 1e6:.1f} MB")
    return DONE
