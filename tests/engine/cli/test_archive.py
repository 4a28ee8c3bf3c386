"""A study as one file: it opens again equal, holds no key, and says what is missing of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import crosswind as package
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace

KEY = "sk-live-0123456789abcdef"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    found = small_workspace(tmp_path_factory.mktemp("study") / "study")
    found.edit(found.config, "num_samples: 1}", "num_samples: 1}\npeople: vote")
    spare = "{model: gpt-5.4, source: openai, apikey: '${OPENAI_API_KEY}'}"
    with found.config.open("a") as config:
        config.write(f"models: {{spare: {spare}}}\n")
    (found.root / ".env").write_text(f"OPENAI_API_KEY={KEY}\n", "utf-8")
    found.run()
    reject = ("review", "--reject", "m01_s002", "--reason", f"{KEY} is odd", "--by", "ada")
    crosswind(found.root, *reject, code=0)
    crosswind(found.root, "export", "archive", "--out", str(found.root / "study.zip"), code=0)
    return found


def test_an_archive_opens_again_equal(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "again"
    crosswind(other, "import", str(place.root / "study.zip"), code=0)
    for command in (["results", "--json"], ["results", "--methods"], ["export", "jsonl"]):
        first = crosswind(place.root, *command, code=0).out
        assert crosswind(other, *command, code=0).out == first.replace(KEY, "[hidden]"), command
    assert list(package.open(other).results()) == list(package.open(place.root).results())
    assert "people: vote" in (other / "config.yaml").read_text("utf-8")
    crosswind(other, "export", "archive", "--out", str(tmp_path / "twice.zip"), code=0)
    with (
        zipfile.ZipFile(place.root / "study.zip") as one,
        zipfile.ZipFile(tmp_path / "twice.zip") as two,
    ):
        assert one.namelist() == two.namelist()


def test_an_archive_holds_no_key(place: Place) -> None:
    with zipfile.ZipFile(place.root / "study.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert [name for name, text in texts.items() if KEY in text] == []
    assert any("[hidden] is odd" in text for text in texts.values())
    assert not any(name.endswith(".env") for name in texts)


def test_a_key_in_plain_text_is_refused(place: Place, tmp_path: Path) -> None:
    plain = place.copied(tmp_path / "plain")
    plain.edit(plain.config, "'${OPENAI_API_KEY}'", KEY)
    out = str(tmp_path / "study.zip")
    told = crosswind(plain.root, "export", "archive", "--out", out, code=2).words
    approve(told)
    assert list(tmp_path.glob("*.zip")) == []


def test_what_is_missing_or_changed_is_named_and_nothing_is_imported(
    place: Place, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(place.root / "study.zip") as whole, zipfile.ZipFile(broken, "w") as part:
        for name in whole.namelist():
            if name.endswith("holds/scores.json"):
                continue
            text = whole.read(name)
            part.writestr(name, text + b" " if name.endswith("scenarios.json") else text)
    told = crosswind(tmp_path / "new", "import", str(broken), code=2).words
    approve(told)
    assert not (tmp_path / "new").exists()
    cut = tmp_path / "cut.zip"
    cut.write_bytes((place.root / "study.zip").read_bytes()[:-200])
    told = crosswind(tmp_path / "new", "import", str(cut), code=2).words
    approve(told)


def test_an_archive_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "named-as-one-likes"
    for manifest, why in (
        ('{"crosswind_archive": 2, "sha256": {}}', "this archive is of version 2"),
        ('{"crosswind_archive": 1, "sha256": {"../x": ""}}', "leads elsewhere: '../x'"),
        ('{"crosswind_archive": 1, "sha256": {".env": ""}}', "leads elsewhere: '.env'"),
        ("[]", "archive.json cannot be read"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive.json", manifest)
        assert why in crosswind(tmp_path / "new", "import", str(path), code=2).words


def test_an_archive_is_not_made_over_files_that_were_edited_by_hand(
    place: Place, tmp_path: Path
) -> None:
    edited = place.copied(tmp_path / "edited")
    scores = edited.folder / "runs" / "holds" / "scores.json"
    scores.write_text(scores.read_text("utf-8").replace("true", "false"), "utf-8")
    out = str(tmp_path / "study.zip")
    told = crosswind(edited.root, "export", "archive", "--out", out, code=2).words
    assert "--keep or --overwrite" in told
    approve(
        crosswind(
            place.root, "export", "archive", "--out", str(place.root / "study.zip"), code=2
        ).words
    )
