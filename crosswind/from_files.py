"""Reads files into a store of their own, which is gone with the process, so that what has no store
is read as what has one."""

from __future__ import annotations

import asyncio
import atexit
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp

from engine.cli.console import tell
from engine.cli.importing import complaints
from engine.cli.session import Session, open_session
from engine.config.schema import Config
from engine.config.workspace import STORE_FILE, Workspace
from engine.importing.importer import Importer, complete_configuration, make_workspace
from engine.importing.report import ImportReport
from engine.importing.source import ImportableFolder, look_through
from engine.pipeline.files import store_counts
from engine.store.database import open_store
from engine.store.lock import hold_workspace


def session_from_files(folder: Path, config: Config | None) -> Session:
    """A session on a temporary workspace that holds what the files of a folder hold, with `config`
    or else with the configuration that `crosswind import` would make. What could not be read is
    said on stderr. Raises `InputError` where there is nothing to read."""
    found = look_through(folder)
    root = Path(mkdtemp(prefix="crosswind-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    made = None if config is not None else make_workspace(root, found.config)
    if config is None:
        session = open_session(root)
    else:
        own = config.model_copy(update={"store": str(root / STORE_FILE)})
        session = Session(Workspace(root), own)
    report = _filled(session, found)
    if made is not None:
        is_added = found.config is not None
        complete_configuration(made, report.unknown_targets, report.samples, add=is_added)
        session = open_session(root)
    for line in complaints(report):
        tell(line)
    return session


def _filled(session: Session, found: ImportableFolder) -> ImportReport:
    async def fill() -> ImportReport:
        workspace, config = session.workspace, session.config
        with (
            hold_workspace(workspace.root) as hold,
            open_store(session.store_path, engine=hold.engine) as store,
        ):
            report = await Importer(workspace, config, store.reader, store).run(found)
            await store_counts(workspace, config, store)
            return report

    # a notebook runs an event loop on its own thread
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fill()).result()
