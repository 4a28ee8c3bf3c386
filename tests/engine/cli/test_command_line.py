"""A slip of the finger is met with the word that was meant, and every command explains itself."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from engine.cli.command_line import build_parser, commands_of, parse
from engine.cli.commands import COMMANDS
from engine.cli.main import INTERRUPTED, guarded
from engine.errors import InputError
from tests.approval import approve
from tests.engine.commands import command, crosswind

SLIPS: Final = """\
rnu
statsu
xyzzy
run --headles
show
search x --limit many
run --budget 0
results --json --methods
--wrokspace x
export md --dir x
"""


def test_a_wrong_word_gets_the_nearest_right_one() -> None:
    told = []
    for line in SLIPS.splitlines():
        with pytest.raises(InputError) as caught:
            parse(line.split())
        told.append(f"{line}: {caught.value}")
    approve("\n".join(told))


def test_every_command_explains_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert command("--version", code=0).out.startswith("crosswind ")
    assert command("version", code=0) == command("--version", code=0)
    whole = build_parser().format_help()
    assert whole.index("\nread results:") < whole.index("\n  results ") < whole.index("\n  label ")
    for name, kind in COMMANDS.items():
        assert len(re.findall(rf"^  {name} ", whole, re.MULTILINE)) == 1, name
        module, function = kind.runs.split(".")
        assert callable(getattr(import_module(f"engine.cli.{module}"), function))
        told = []
        for words in ([name, "--help"], ["help", name]):
            with pytest.raises(SystemExit) as left:
                parse(words)
            assert left.value.code == 0
            told.append(capsys.readouterr().out)
        assert told[0] == told[1]
        lines = told[0].splitlines()
        assert [line for line in lines if len(line) > 80] == []
        usage, _, below = told[0].partition("\n\n")
        assert "--plain" not in usage
        assert "--plain" in below
        for typed, does in kind.examples.items():
            assert any(line.startswith(f"  {typed}") and line.endswith(does) for line in lines)
            program, *words = shlex.split(typed.partition(" > ")[0])
            if program == "crosswind":
                assert isinstance(parse(words), kind)
    assert {name for name, kind in COMMANDS.items() if not kind.examples} == {
        *("pause", "resume", "watch")
    }
    approve(" ".join(commands_of(build_parser())["label"].format_help().split()))


def test_an_error_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    told = crosswind(tmp_path / "nowhere", "run", code=2)
    assert told.out == ""
    assert "crosswind:" in told.err
    assert "Traceback" not in told.err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_never_silent(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("the engine goes on",)):

        def command(words: tuple[str, ...] = words) -> int:
            raise KeyboardInterrupt(*words)

        assert guarded(command) == INTERRUPTED
    approve(capsys.readouterr().err)


def test_no_command_needs_the_name_of_a_benchmark() -> None:
    needing = {
        (name, action.dest)
        for name, parser in commands_of(build_parser()).items()
        for action in parser._actions
        if "BENCHMARK" in str(action.metavar or action.dest).upper()
        and not action.option_strings
        and action.nargs not in {"?", "*"}
    }
    assert needing == set()
