"""What an engine is started for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.config.schema import Config, load_config
from engine.pipeline.order import Order
from engine.scripted import Pace


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Where an engine works, and how."""

    root: Path
    config_path: Path
    pace: Pace | None = None
    """At which scripted models speak, where it is not the configuration's."""

    def config(self) -> Config:
        """As it is now. Raises `InputError`."""
        config = load_config(self.config_path)
        return config if self.pace is None else config.at_pace(self.pace)


@dataclass(frozen=True, slots=True)
class Job:
    """What an engine is started for."""

    place: EngineSettings
    order: Order | None
    linger: float
    """Seconds that it waits for more when all is done."""
