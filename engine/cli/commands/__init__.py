"""The commands: each a class with its arguments, an object of which is what was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.cli.commands.at_work import (
    EvaluateCommand,
    PauseCommand,
    ResumeCommand,
    RunCommand,
    SimulateCommand,
    StatusCommand,
    StopCommand,
    ValidateCommand,
    WatchCommand,
)
from engine.cli.commands.results import (
    CalibrateCommand,
    ExportCommand,
    LabelCommand,
    ResultsCommand,
    ReviewCommand,
    SearchCommand,
    ShowCommand,
)
from engine.cli.commands.typed import CliCommand
from engine.cli.commands.upkeep import (
    DemoCommand,
    DoctorCommand,
    ImportCommand,
    InitCommand,
    ModelCommand,
    NewCommand,
    PruneCommand,
    RepairCommand,
)

COMMAND_GROUPS: Final[Mapping[str, Sequence[type[CliCommand]]]] = {
    "begin": (DemoCommand, ModelCommand, InitCommand, NewCommand),
    "prepare": (ReviewCommand,),
    "run": (
        RunCommand,
        WatchCommand,
        StatusCommand,
        PauseCommand,
        ResumeCommand,
        StopCommand,
        EvaluateCommand,
        SimulateCommand,
        ValidateCommand,
    ),
    "read results": (ResultsCommand, ShowCommand, SearchCommand, ExportCommand),
    "check the judge against people": (LabelCommand, CalibrateCommand),
    "look after a workspace": (DoctorCommand, ImportCommand, PruneCommand, RepairCommand),
}
"""By task, in the order in which `--help` lists them."""
COMMANDS: Final = {kind.word(): kind for kinds in COMMAND_GROUPS.values() for kind in kinds}
