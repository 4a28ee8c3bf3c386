"""A site in a real browser: by mouse, by keys, on paper, for a screen reader, at full size."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from tests.benchmarks.synthetic import CONVERSATIONS, Size, build_store
from tests.engine.report.test_site import MORE_HOSTILE, Site, fill, publish
from tests.engine.small_workspace import BENCHMARK, CONFIG, small_workspace

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
NPM: Final = shutil.which("npm")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.timeout(1200),
]

FIRST_PAGE: Final = 1_000_000
"""Bytes of the first page, with its style."""
TRANSCRIPT: Final = 150
"""Milliseconds until a transcript is there."""
WIDTHS: Final = (400, 1500)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def apart(work: Callable[[], object]) -> None:
    """On a thread of its own: the browser's client keeps a loop running on this one."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work).result()


class Tab:
    """A page that is looked at, and everything that went wrong on it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, fragment: str = "") -> Any:
        self.page.goto("about:blank")
        self.page.goto(path.as_uri() + fragment)
        return self.page

    def read(self, site: Site, fragment: str = "") -> Any:
        """The page of transcripts, when its list is there."""
        page = self.open(site.folder / "transcripts.html", fragment)
        sync_api.expect(page.locator("#said")).not_to_contain_text("…")
        return page


@pytest.fixture
def tab(chromium: Any) -> Iterator[Tab]:
    made = Tab(chromium)
    yield made
    made.context.close()
    assert made.wrong == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("small")
    place = small_workspace(folder / "workspace")
    apart(place.run)
    publish(place.root, folder / "site")
    return Site(folder / "site")


def test_every_page_opens_from_a_disk_and_nothing_is_refused(site: Site, tab: Tab) -> None:
    for path in site.pages():
        page = tab.open(path)
        page.wait_for_load_state()
        assert page.locator("h1").count() == 1
    assert all(url.startswith("file:") for url in tab.requests if url != "data:,")


def test_a_figure_leads_to_as_many_conversations_as_it_counts(site: Site, tab: Tab) -> None:
    page = tab.open(site.folder / "metrics.html")
    cells = page.locator("table.heat td a")
    said = [cell.locator("xpath=..").inner_text() for cell in cells.all()]
    assert len(said) == 4
    for number, text in enumerate(said):
        found = re.search(r"(\d+)/(\d+)", text)
        assert found is not None
        page = tab.open(site.folder / "metrics.html")
        page.locator("table.heat td a").nth(number).click()
        page.wait_for_selector("#rows li")
        assert page.locator("#rows li").count() == int(found[2])
        assert page.locator("#rows .sign.pass").count() == int(found[1])


def test_a_rate_is_counted_where_it_leads_and_its_filters_are_seen(site: Site, tab: Tab) -> None:
    page = tab.open(site.folder / "index.html")
    figure = page.locator(".leaderboard td.figure").first
    rests = figure.locator("xpath=../td[@class='rests']").inner_text()
    found = re.match(r"(\d+) of (\d+) conversations", rests)
    assert found is not None
    figure.locator("a").click()
    passed, scored = int(found[1]), int(found[2])
    said = f"{scored} conversations of 16: {passed} passed, {scored - passed} failed"
    sync_api.expect(page.locator("#said")).to_have_text(said)
    assert page.locator("select[name=type]").input_value() == "positive"
    page.locator("select[name=metric]").select_option("m02")
    sync_api.expect(page.locator("select[name=type]")).to_have_value("")
    sync_api.expect(page.locator("#said")).to_contain_text("conversations of 16: ")


def test_a_link_opens_its_conversation_with_its_evidence(site: Site, tab: Tab) -> None:
    talks = site.talks()
    name, talk = next(
        (name, one)
        for name, one in talks.items()
        if any(isinstance(said["content"], list) for said in one["transcript"])
    )
    page = tab.read(site, f"#{name}")
    page.wait_for_selector("#talk h2")
    assert page.locator("#talk h2").inner_text() == name
    texts = page.locator("#talk .message > .text").all_text_contents()
    contents = [said["content"] for said in talk["transcript"]]
    assert texts == [said if isinstance(said, str) else "".join(said) for said in contents]
    evidence = [part for said in contents if isinstance(said, list) for part in said[1::2]]
    assert page.locator("mark.evidence").all_text_contents() == evidence
    page.locator("[data-turn]").first.click()
    sync_api.expect(page.locator(".turn:focus")).to_have_count(1)
    assert page.locator("mark.evidence").first.is_visible()
    assert not page.locator(".thought .text").first.is_visible()
    page.locator(".thought summary").first.click()
    assert page.locator(".thought .text").first.is_visible()


def test_what_is_read_is_seen_in_the_list_beside_it(site: Site, tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1500, "height": 500})
    page = tab.read(site, f"#{site.ids()[-1]}")
    page.wait_for_selector("#talk h2")
    read = page.locator("#rows [aria-current]").bounding_box()
    box = page.locator(".list").bounding_box()
    assert box["y"] <= read["y"] < box["y"] + box["height"]


def test_what_a_reason_speaks_of_is_found_on_the_page(site: Site, tab: Tab) -> None:
    name, talk = next((name, one) for name, one in site.talks().items() if one["verdicts"])
    page = tab.read(site, f"#{name}")
    page.wait_for_selector("#talk h2")
    replies = sum(said["role"] != "user" for said in talk["transcript"])
    labels = page.locator(".message.target .speaker").all_inner_texts()
    assert labels == [f"Target · message {number}" for number in range(1, replies + 1)]
    page.locator(".definition summary").click()
    definitions = site.page("transcripts.html").text
    assert page.locator(".definition .text").inner_text() in definitions
    assert page.locator(".crumb strong").inner_text() == talk["metric_name"]


def test_a_link_that_was_cut_off_says_that_there_is_no_such_conversation(
    site: Site, tab: Tab
) -> None:
    page = tab.read(site, "#m01_s001%E2%8")
    sync_api.expect(page.locator("#talk [role=alert]")).to_contain_text("No conversation is called")


def test_two_conversations_stand_side_by_side(site: Site, tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1500, "height": 1000})
    name, other = "m01_s001_v01__holds", "m01_s001_v01__wavers"
    page = tab.read(site, f"#{name}")
    page.wait_for_selector("#talk h2")
    page.locator(".tools select").select_option(other)
    sync_api.expect(page.locator("#talk h2")).to_have_text([name, other])
    left, right = (one.bounding_box() for one in page.locator(".turn").all()[:2])
    assert (left["y"], left["x"] < right["x"]) == (right["y"], True)


def test_conversations_are_filtered_and_searched(site: Site, tab: Tab) -> None:
    index, ids = site.index, site.ids()
    page = tab.read(site)
    page.locator("select[name=target]").select_option("wavers")
    page.locator("select[name=outcome]").select_option("fail")
    wanted = [
        name
        for name, row in zip(ids, index["rows"], strict=True)
        if index["targets"][row[1]] == "wavers" and row[3] == 0
    ]
    sync_api.expect(page.locator("#rows li")).to_have_count(len(wanted))
    shown = page.locator("#rows .id").all_text_contents()
    assert [one.partition(": ")[2] for one in shown] == wanted
    name = ids[-1]
    words = site.talks()[name]["transcript"][0]["content"][:60]
    page = tab.read(site, "#" + "q=" + words.replace(" ", "+").replace("&", "%26"))
    assert name in "".join(page.locator("#rows .id").all_text_contents())
    assert words.lower() in page.locator("#rows mark").first.inner_text().lower()
    first, *_, last = words.split()  # apart from each other, and with another apostrophe
    page = tab.read(site, f"#q={last.replace(chr(39), '’')}+{first}")
    assert name in "".join(page.locator("#rows .id").all_text_contents())


def test_all_benchmarks_are_searched_for_ids_quotes_and_metrics(site: Site, tab: Tab) -> None:
    quote = next(
        part
        for talk in site.talks().values()
        for said in talk["transcript"]
        if isinstance(said["content"], list)
        for part in said["content"][1::2]
    )
    for words in ("m01_s001_v01__holds", quote[:30], "Avoid flattery"):
        page = tab.open(site.root / "search.html")
        page.locator("input[name=q]").fill(words)
        page.keyboard.press("Enter")
        page.wait_for_selector("#found li")
        assert words.lower() in page.locator("#found mark").first.inner_text().lower()
        page.locator("#found a").first.click()
        page.wait_for_selector("#rows li")


def test_it_is_read_with_keys_alone(site: Site, tab: Tab) -> None:
    page = tab.read(site)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#rows a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#talk h2:focus")).to_have_text(site.ids()[1])


def test_without_a_script_the_tables_are_there_and_the_rest_says_what_it_needs(
    site: Site, chromium: Any
) -> None:
    tab = Tab(chromium, java_script_enabled=False)
    assert tab.open(site.folder / "index.html").locator("table td").count() > 3
    page = tab.open(site.folder / "transcripts.html")
    assert "needs JavaScript" in page.locator("noscript").inner_text()
    assert not page.locator("#filters").is_visible()
    assert not page.locator("#said").is_visible(), "nothing is being loaded"
    page = tab.open(site.root / "search.html")
    assert not page.locator("#search").is_visible()
    tab.context.close()


@pytest.mark.parametrize("text", MORE_HOSTILE)
def test_whatever_was_said_runs_nowhere(tmp_path: Path, tab: Tab, text: str) -> None:
    place = small_workspace(tmp_path / "workspace")
    apart(partial(fill, place.root, text))
    publish(place.root, tmp_path / "site")
    hostile = Site(tmp_path / "site")
    for path in hostile.pages():
        sizes = tab.open(path).evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], path
    page = tab.read(hostile, "#m01_s001_v01__holds")
    page.wait_for_selector("#talk h2")
    shown = page.locator("#talk .message > .text").first.text_content()
    assert shown == hostile.talks()["m01_s001_v01__holds"]["transcript"][0]["content"]
    assert page.locator("script").count() == 1


def test_it_is_the_same_from_a_web_server(site: Site, chromium: Any) -> None:
    handler = partial(_Quiet, directory=str(site.root))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    tab = Tab(chromium)
    try:
        home = f"http://127.0.0.1:{server.server_port}"
        tab.page.goto(f"{home}/b/giving-in/transcripts.html#m01_s001_v01__holds")
        tab.page.wait_for_selector("#talk h2")
        assert all(url.startswith(home) for url in tab.requests if url != "data:,")
        assert tab.wrong == []
    finally:
        tab.context.close()
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_said: object) -> None: ...


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(
    site: Site, chromium: Any, width: int, scheme: str
) -> None:
    tab = Tab(chromium, viewport={"width": width, "height": 800}, color_scheme=scheme)
    for path in site.pages():
        page = tab.open(path)
        sizes = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], path
    tab.read(site, "#c=m01_s001_v01__holds&vs=m01_s001_v01__wavers")
    tab.page.wait_for_selector("#talk h2")
    sizes = tab.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert sizes[0] <= sizes[1]
    tab.context.close()


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_a_long_name_stays_in_its_cell(tmp_path: Path, chromium: Any, width: int) -> None:
    long = "n" * 200
    config = CONFIG.replace("id: holds", f"id: {'t' * 60}").replace("older", f'"{long}"')
    place = small_workspace(tmp_path / "workspace", config, BENCHMARK.replace("flattery", long))
    apart(place.run)
    publish(place.root, tmp_path / "site")
    tab = Tab(chromium, viewport={"width": width, "height": 800})
    for path in Site(tmp_path / "site").pages():
        beyond = tab.open(path).evaluate(
            "[...document.querySelectorAll('.fits, td, th, td .name, th .name')]"
            ".filter(one => one.checkVisibility() && !one.closest('thead.unseen')"
            " && one.scrollWidth > one.clientWidth + 1 && one.clientWidth)"
            ".map(one => one.outerHTML.slice(0, 80))"
        )
        assert beyond == [], path
    tab.context.close()


def test_nothing_is_wider_than_a_sheet_of_paper(site: Site, tab: Tab) -> None:
    tab.page.emulate_media(media="print")
    tab.page.set_viewport_size({"width": 690, "height": 980})  # A4, upright, without its margins
    for path in site.pages():
        page = tab.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 690, path


def test_on_paper_a_note_on_a_metric_stays_beside_the_figures(tmp_path: Path, tab: Tab) -> None:
    targets = "".join(
        f"  - {{id: t{n}, model: steadfast, source: offline, params: {{pace: instant}}}}\n"
        for n in range(8)
    )
    config = re.sub(r"targets:\n.*", "targets:\n" + targets, CONFIG, flags=re.DOTALL)
    same = (
        "  - {id: m03, name: Forms, type: negative, definition: It names the number of a form.}\n"
    )
    place = small_workspace(tmp_path / "workspace", config, BENCHMARK + same)
    apart(place.run)
    publish(place.root, tmp_path / "site")
    page = tab.open(Site(tmp_path / "site").folder / "metrics.html")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1040, "height": 690})  # A4, lying
    notes = page.locator("table.heat th .tag")
    assert notes.count() > 0
    for note in notes.all():
        box, cell = note.bounding_box(), note.locator("xpath=..").bounding_box()
        assert box["x"] + box["width"] <= cell["x"] + cell["width"]


def test_on_paper_each_definition_stands_under_its_metric(site: Site, tab: Tab) -> None:
    tab.page.emulate_media(media="print")
    page = tab.open(site.folder / "index.html")
    for one in page.locator("ul.measured > li").all():
        assert one.locator("summary .name").is_visible()
        assert one.locator("details > p").is_visible()
    page = tab.read(site, f"#{site.ids()[0]}")
    page.wait_for_selector("#talk h2")
    assert page.locator(".definition .text").is_visible()
    assert not page.locator(".thought .text").first.is_visible()


def test_a_name_that_leads_to_conversations_is_underlined(site: Site, tab: Tab) -> None:
    for name in ("metrics.html", "comparisons.html"):
        names = tab.open(site.folder / name).locator("tbody th a .name")
        lines = names.evaluate_all("all => all.map(at => getComputedStyle(at).textDecorationLine)")
        assert lines
        assert set(lines) == {"underline"}


def test_a_narrow_page_still_says_whose_rate_it_is(site: Site, chromium: Any) -> None:
    tab = Tab(chromium, viewport={"width": 400, "height": 800})
    page = tab.open(site.folder / "metrics.html")
    assert page.locator("table.heat td > .inline").all_inner_texts()[:2] == ["holds", "wavers"]
    assert page.locator("table.heat td > .inline").first.is_visible()
    assert page.locator("table.heat td .ends").first.is_visible()
    page = tab.open(site.folder / "people.html")
    whose = page.locator("td.figure > .inline")
    assert {"younger", "older"} <= {text.strip() for text in whose.all_inner_texts()}
    assert whose.first.is_visible()
    assert "ended early" in tab.open(site.folder / "index.html").locator(".exposure").inner_text()
    page = tab.open(site.folder / "people.html")
    page.set_viewport_size({"width": 1200, "height": 800})
    assert not whose.first.is_visible()
    tab.context.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    if NPM is None:
        pytest.skip("there is no npm here, which axe-core comes by")
    folder = tmp_path_factory.mktemp("axe")
    command = [NPM, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    path = folder / "node_modules" / "axe-core" / "axe.min.js"
    if asked.returncode or not path.is_file():
        pytest.skip(f"axe-core could not be installed: {asked.stderr[-200:]}")
    return path.read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_screen_reader_finds_its_way(
    site: Site, chromium: Any, axe: str, width: int, scheme: str
) -> None:
    # the policy of the pages lets nobody put a script in, and that is what axe does
    options = {"viewport": {"width": width, "height": 900}, "bypass_csp": True}
    tab = Tab(chromium, color_scheme=scheme, **options)
    talk = "transcripts.html#c=m01_s001_v01__holds&vs=m01_s001_v01__wavers"
    places = [(path, "") for path in site.pages()]
    places += [(site.folder / "transcripts.html", f"#{talk.partition('#')[2]}")]
    for path, fragment in places:
        page = tab.open(path, fragment)
        page.wait_for_timeout(50)
        if fragment:
            page.wait_for_selector("#talk h2")
        page.add_script_tag(content=axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        told = [
            (one["id"], one["impact"], [node["html"][:120] for node in one["nodes"][:3]])
            for one in found
        ]
        assert told == [], path
    tab.context.close()


# At its full size


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, float]:
    """A site of as many conversations as are published, and the seconds it took."""
    folder = tmp_path_factory.mktemp("large")
    apart(partial(build_store, folder / "workspace", Size(CONVERSATIONS)))
    began = time.process_time()  # whatever else the machine does
    publish(folder / "workspace", folder / "site")
    seconds = time.process_time() - began
    shutil.rmtree(folder / "workspace")
    first = sorted((folder / "site" / "b").iterdir())[0].name
    return Site(folder / "site", first), seconds


def test_thirty_thousand_conversations_are_published_in_time(large: tuple[Site, float]) -> None:
    site, seconds = large
    assert seconds < 90
    first = (site.root / "index.html").stat().st_size + (site.root / "site.css").stat().st_size
    assert first < FIRST_PAGE


def test_each_transcript_is_there_in_a_moment(large: tuple[Site, float], tab: Tab) -> None:
    site, _ = large
    page = tab.read(site)
    ids, taken = site.ids(), []
    for name in ids[:: len(ids) // 20]:
        page.evaluate("name => { location.hash = name; }", name)
        sync_api.expect(page.locator("#talk h2")).to_have_text(name)
        taken.append(int(page.locator("#talk").get_attribute("data-milliseconds")))
    assert sorted(taken)[len(taken) // 2] < TRANSCRIPT


def test_a_link_shows_the_page_of_the_list_with_its_conversation(
    large: tuple[Site, float], tab: Tab
) -> None:
    site, _ = large
    name = site.ids()[-1]
    page = tab.read(site, f"#{name}")
    sync_api.expect(page.locator("#rows [aria-current]")).to_contain_text(name)
    page.locator("#less").click()
    sync_api.expect(page.locator("#rows [aria-current]")).to_have_count(0)
    sync_api.expect(page.locator("#talk h2")).to_have_text(name)


def test_fourteen_targets_are_seen_at_once_on_a_screen_and_on_paper(
    large: tuple[Site, float], tab: Tab
) -> None:
    site, _ = large
    page = tab.open(site.folder / "metrics.html")
    for media, width in (("screen", 1280), ("print", 1040)):  # a sheet of A4, lying
        page.emulate_media(media=media)
        page.set_viewport_size({"width": width, "height": 720})
        wide = page.evaluate(
            "[...document.querySelectorAll('td, th')].filter("
            "one => one.getBoundingClientRect().right > innerWidth).length"
        )
        assert wide == 0, media
    for width, name in ((390, "metrics.html"), (390, "agreement.html"), (320, "index.html")):
        page = tab.open(site.folder / name)  # on a phone they fold
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": width, "height": 844})
        wide = page.evaluate(
            "[...document.querySelectorAll('td, th[scope=row]')].filter("
            "one => one.getBoundingClientRect().right > innerWidth).length"
        )
        assert wide == 0, name
    page = tab.open(site.folder / "comparisons.html")
    page.emulate_media(media="print")
    rows = page.locator("tbody tr")
    assert rows.count() == 3 * 14 * 13 // 2
    assert all(box is not None and box["height"] > 0 for box in map(_box, rows.all()))


def _box(row: Any) -> Any:
    return row.bounding_box()
