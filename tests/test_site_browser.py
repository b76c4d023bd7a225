"""The site in real Chromium: what its script does, and that everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import sites
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from foldwise.operators import CATALOG
from foldwise.pages import guides, site, versions, words

pytestmark = [pytest.mark.xdist_group("site"), sites.needs_chromium]
KINDS = {
    "first": "index.html",
    "operator": "operators/ReduceMax.html",
    "version": "operators/onnx-ReduceSum-13.html",
    "scan": "operators/openvino-CumSum-3.html",
    "chooser": "compare/index.html",
    "pair": "compare/onnx-ReduceLogSum-18/onnx-ReduceLogSum-28.html",
    "functions": "functions.html",
    "guides": "guides/index.html",
    "guide": "guides/numerics.html",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with site.server(sites.folder(), 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=sites.CHROMIUM, args=sites.QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1000, "height": 700}, color_scheme="light")
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def ground(page: Page) -> str:
    """The colour behind the text."""
    colour: str = page.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor")
    return colour


# ---- everybody can read it


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_hard_to_read_or_reach(
    chromium: Browser, address: str, kind: str, scheme: Any, width: int
) -> None:
    """The rules of axe: contrast, names, landmarks, order of headings, focus. And nothing sticks out sideways."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address + KINDS[kind])
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    context.close()


def test_nothing_sticks_out_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    for path in (*versions.pages(), *guides.pages()):
        page.goto(address + path.path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path.path


def test_only_this_site_is_asked(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in KINDS.values():
        page.goto(address + path)
        page.locator("#search").press("a")
        page.locator("#language").select_option("ja")
        expect(page.locator("#results")).to_be_visible()
    assert len(asked) > 3 * len(KINDS)
    assert all(url.startswith(address) for url in asked)


def test_it_works_from_a_disk_and_without_scripts(chromium: Browser, page: Page) -> None:
    first = (sites.folder() / "index.html").as_uri()
    page.goto(first)
    page.locator("#search").fill("cumsum 14")
    expect(page.locator("#results [role=option]").first).to_contain_text("CumSum - version 14")
    context = chromium.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.goto(first)
    expect(bare.locator("#search")).to_be_hidden()
    bare.get_by_role("link", name="Compare").click()
    expect(bare.locator("form")).to_be_hidden()
    bare.get_by_role("link", name="onnx:ReduceSum-11 → onnx:ReduceSum-13: breaking").click()
    expect(bare.get_by_role("heading", level=1)).to_have_text("onnx:ReduceSum-11 → onnx:ReduceSum-13")
    context.close()


# ---- search


def test_search_by_keyboard(page: Page, address: str) -> None:
    page.goto(address + KINDS["guide"])
    page.keyboard.press("/")
    search = page.locator("#search")
    expect(search).to_be_focused()
    page.keyboard.type("reducesum 13")
    options = page.locator("#results [role=option]")
    expect(options.first).to_contain_text("ReduceSum - version 13 (ONNX)")
    expect(search).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    chosen = options.first.get_attribute("id")
    expect(search).to_have_attribute("aria-activedescendant", str(chosen))
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operators/onnx-ReduceSum-13.html")


def test_search_says_when_there_is_nothing_and_forgets(page: Page, address: str) -> None:
    page.goto(address)
    search = page.locator("#search")
    search.fill("zebra")
    expect(page.locator("#found-nothing")).to_be_visible()
    search.press("Escape")
    expect(page.locator("#found-nothing")).to_be_hidden()
    expect(search).to_have_value("")


def test_search_finds_guides_and_is_clicked(page: Page, address: str) -> None:
    page.goto(address + KINDS["version"])
    page.locator("#search").fill("special values")
    page.locator("#results [role=option]").first.click()
    page.wait_for_url("**/guides/numerics.html")


# ---- two versions


def test_any_two_versions_are_compared(page: Page, address: str) -> None:
    page.goto(address + KINDS["chooser"])
    assert page.locator("#old option").count() == len(CATALOG.schemas)
    page.get_by_label("Old version").select_option("onnx:ReduceSum-1")
    page.get_by_label("New version").select_option("openvino:CumSum-3")
    page.get_by_role("button", name="Show the differences").click()
    page.wait_for_url("**/compare/onnx-ReduceSum-1/openvino-CumSum-3.html")
    expect(page.get_by_role("heading", name="Breaking reasons")).to_be_visible()
    page.get_by_role("link", name="openvino:CumSum-3 → onnx:ReduceSum-1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("openvino:CumSum-3 → onnx:ReduceSum-1")


def test_a_version_is_not_compared_with_itself(page: Page, address: str) -> None:
    page.goto(address + KINDS["chooser"])
    page.get_by_label("New version").select_option("onnx:ReduceSum-1")
    page.get_by_role("button").click()
    expect(page.get_by_text("Choose two different versions.")).to_be_visible()


# ---- light, dark, language: chosen once


def test_dark_is_chosen_and_kept(page: Page, address: str) -> None:
    page.goto(address)
    light = ground(page)
    page.emulate_media(color_scheme="dark")
    dark = ground(page)
    assert dark != light
    page.get_by_label("Light or dark").select_option("light")
    assert ground(page) == light
    page.emulate_media(color_scheme="light")
    page.get_by_label("Light or dark").select_option("dark")
    assert ground(page) == dark
    page.goto(address + KINDS["version"])
    assert ground(page) == dark
    expect(page.locator("#theme")).to_have_value("dark")


@pytest.mark.parametrize("language", [code for code in words.LANGUAGES if code != "en"])
def test_the_furniture_speaks_the_reader_s_language(page: Page, address: str, language: str) -> None:
    said = words.dictionary(language)
    page.goto(address + KINDS["version"])
    page.locator("#language").select_option(language)
    inputs = page.locator("#inputs span")
    expect(inputs).to_have_text(said["inputs"])
    expect(inputs).to_have_attribute("lang", language)
    expect(page.locator("#search")).to_have_attribute("placeholder", said["search"])
    expect(page.locator("nav")).to_have_attribute("aria-label", said["pages"])
    page.goto(address + KINDS["pair"])
    expect(page.get_by_role("heading", name=said["breaking reasons"])).to_be_visible()
    page.locator("#language").select_option("en")
    expect(page.get_by_role("heading", name="Breaking reasons")).to_be_visible()


# ---- keyboard alone


def test_everything_is_reached_by_keyboard(page: Page, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    reached = []
    page.goto(address)
    for _ in range(9):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[1:] == [
        "foldwise", "Operators", "Functions", "Compare", "Guides", "search", "theme", "language",
    ]  # fmt: skip


def test_a_shown_difference_needs_nothing_else(page: Page, tmp_path: Path) -> None:
    """The page that fw.diff writes by itself, light and dark."""
    import foldwise as fw

    written = tmp_path / "difference.html"
    written.write_text(fw.diff("onnx:ReduceSum-13", "openvino:ReduceSum-1").html(), encoding="ascii")
    page.goto(written.as_uri())
    light = ground(page)
    assert Axe().run(page).response["violations"] == []
    page.emulate_media(color_scheme="dark")
    assert ground(page) != light
    assert Axe().run(page).response["violations"] == []
