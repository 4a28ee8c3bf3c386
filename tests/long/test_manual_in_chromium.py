"""The built manual in a real browser, opened from a disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tools.manual.__main__ import build

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


def test_it_is_searched_without_a_server_and_asks_for_nothing_that_is_not_there(
    tmp_path: Path,
) -> None:
    assert build(tmp_path) == 0
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.goto((tmp_path / "site" / "providers.html").as_uri())
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").press_sequentially("reasoning_effort")
        page.get_by_text("The probability mass of the likeliest").first.wait_for()
        assert page.get_by_role("combobox", name="Search").input_value() == "reasoning_effort"
        assert wrong == []
        browser.close()
