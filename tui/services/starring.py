"""Stars, and what else a person set up for one workspace."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tui.services.export import Taking

if TYPE_CHECKING:
    from tui.services.preferences import ViewMemory, Views


class Starring(Taking):
    """An app that remembers, for each workspace, what a person set up in it."""

    kept_beside: Path | None = None
    """The file beside which it is kept; None where nothing is, beyond this time."""
    _views: Views | None = None

    @cached_property
    def _view_memory(self) -> ViewMemory | None:
        """Read when it is first asked for, which is seldom at the start."""
        from tui.services.preferences import ViewMemory

        if self.kept_beside is None:
            return None
        memory = ViewMemory.beside(self.kept_beside, self._watch.reader.path.parent)
        self._say_notice(memory)
        return memory

    @property
    def views(self) -> Views:
        from tui.services.preferences import Views

        if self._views is None:
            memory = self._view_memory
            self._views = Views() if memory is None else memory.views
        return self._views

    def keep_views(self, views: Views) -> None:
        self._views = views
        memory = self._view_memory
        if memory is not None:
            memory.keep(views)
            self._say_notice(memory)

    def use_theme(self, name: str) -> None:
        raise NotImplementedError

    def keep_place(self, *, at_work: bool) -> None:
        if at_work:
            self.keep_views(replace(self.views, place_at_work=self.place))
        else:
            self.keep_views(replace(self.views, place=self.place))

    def _say_notice(self, memory: ViewMemory) -> None:
        if memory.notice is not None:
            self.tell(memory.notice, bad=True)
            memory.notice = None

    def action_star(self) -> None:
        subject = self.subject
        if subject is None:
            self.tell("There is no conversation here to give a star.")
            return
        stars = self.views.with_star_turned(subject)
        self.keep_views(replace(self.views, stars=stars))
        has = "has a star ★, ' lists them" if subject in stars else "has no star any more"
        self.tell(f"{subject.key} {has}")
        self.look()

    def action_stars(self) -> None:
        # Imported here, since it is seldom the first thing that is needed.
        from tui.screens.dialogs import StarsScreen

        if not self.views.stars:
            self.tell("No conversation has a star yet: * gives one.")
            return
        self.push_screen(
            StarsScreen(self.views.stars),
            lambda chosen: None if chosen is None else self.open_conversation(*chosen),
        )
