"""The page of results in a real browser: nothing refused, nothing wider than the window."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from engine.report.html.page import html_report
from tests.engine.cli.test_html_report import HOSTILE, MADE, hostile, rich

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

MEASURE = """\
<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<iframe width="{width}" height="800" srcdoc="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const page = frame.contentDocument;
  const root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter(
    (one) => !one.closest(".scroll") && one.getBoundingClientRect().right > {width} + 1);
  document.getElementById("found").textContent = JSON.stringify({{
    scroll: root.scrollWidth, window: root.clientWidth,
    wide: wide.map((one) => one.tagName + "." + one.getAttribute("class")),
    background: getComputedStyle(page.body).backgroundColor,
    plots: page.querySelectorAll("svg.plot").length,
  }});
}});
</script>
"""


def browse(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", f"--user-data-dir={path.parent / 'profile'}"),
            *options,
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )


def pages() -> dict[str, str]:
    found = {"rich": html_report([rich(), rich()], MADE)}
    return found | {f"hostile{n}": html_report([hostile(t)], MADE) for n, t in enumerate(HOSTILE)}


@pytest.mark.parametrize("name", list(pages()))
def test_a_browser_refuses_nothing_and_runs_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(pages()[name], "utf-8")
    shown = browse(path, "--dump-dom")
    assert "CONSOLE" not in shown.stderr
    assert "<h1" in shown.stdout
    assert "<script" not in shown.stdout


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_wider_than_the_window(tmp_path: Path, width: int) -> None:
    path = tmp_path / "measure.html"
    path.write_text(MEASURE.format(width=width, page=escape(pages()["rich"])), "utf-8")
    dumped = browse(path, "--dump-dom", "--window-size=1600,1200").stdout
    [found] = re.findall('<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    measured = json.loads(unescape(found))
    assert measured["plots"] > 0
    assert measured["wide"] == []
    assert measured["scroll"] <= measured["window"]


def test_it_is_dark_where_dark_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(pages()["rich"], "utf-8")
    pictures = []
    for scheme in ("1", "0"):
        picture = tmp_path / f"{scheme}.png"
        browse(
            path,
            "--window-size=1280,900",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--screenshot={picture}",
        )
        pictures.append(picture.read_bytes())
    assert all(len(picture) > 20_000 for picture in pictures)
    assert pictures[0] != pictures[1]
