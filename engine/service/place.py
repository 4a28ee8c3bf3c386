"""Where an engine works: what whoever starts one has to say, without what an engine needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine.config.schema import Config

Pace = Literal["human", "instant"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine works, and how."""

    root: Path
    config_path: Path
    pace: Pace | None = None
    """At which scripted models speak, where it is not the configuration's."""

    def config(self) -> Config:
        """As it is now. Raises `InputError`."""
        # Imported here: whoever only starts an engine need not wait for what it works with.
        from engine.config.schema import load_config
        from engine.pipeline.models import at_pace

        config = load_config(self.config_path)
        return config if self.pace is None else at_pace(config, self.pace)
