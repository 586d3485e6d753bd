"""The leaderboard's page in a real browser: sorting, filtering, the keyboard, narrow screens and dark ones."""

from __future__ import annotations

import dataclasses
import json

import pytest
from boards import blend, submission, tiny
from browser import chromium

from smeoffline.bench.leaderboard.entry import Entry
from smeoffline.bench.leaderboard.lines import VERIFIED, HeldOut, add_line
from smeoffline.bench.leaderboard.page import build
from smeoffline.bench.leaderboard.scoring import score_entry
from smeoffline.score.statistics import Estimate

PHONE, DESKTOP = (390, 844), (1280, 900)
EVIL = "<script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests here."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page of four entries, one of them a stranger's with markup everywhere, and one of them verified."""
    folder = tmp_path_factory.mktemp("page")
    shares = {"BC": 0.0, "IQL": 0.2, "TD3+BC": 0.6, EVIL: 0.4}
    for name, share in shares.items():
        algorithm = name.lower() if name != EVIL else "<img src=x onerror=\"document.title = 'taken'\">"
        fields = {"name": name, "algorithm": algorithm, "authors": (EVIL,), "link": "https://example.org/paper"}
        entry = Entry(submission(**fields), blend(share, control=-0.1, deep=0.0), "0" * 64)
        made = score_entry(entry, tiny())
        if name == "IQL":
            made = dataclasses.replace(made, flags=("control: a reason",))
        add_line(folder / "results.jsonl", made)
    held = HeldOut("a" * 16, made.scores, Estimate(0.01, -0.01, 0.03, 2))
    add_line(folder / "results.jsonl", dataclasses.replace(made, tier=VERIFIED, held_out=held, entry_sha256=None))
    return build(folder).files[0].as_uri()


@pytest.fixture
def page(browser, address):
    """The page, freshly opened at the width of a desktop."""
    resize(browser, DESKTOP)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get(address)
    return browser


def resize(browser, size):
    """Set the size of the window's inside."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def names(page):
    """The first table's entries from top to bottom."""
    script = """return [...document.querySelectorAll('.board')[0].tBodies[0].rows].map(
        row => row.querySelector('th').firstChild.textContent.trim())"""
    return page.execute_script(script)


def heading(page, title):
    """A heading of the first table, with its button."""
    cells = page.find_elements("css selector", "section.tier:first-of-type .board thead th")
    return next(cell for cell in cells if cell.text.strip(" ▲▼") == title)


def test_nothing_of_a_stranger_runs_and_nothing_is_loaded(page):
    """Scripts in an entry do not run, no request leaves the page, and the console is empty."""
    assert page.title == "smeoffline leaderboard: tiny"
    assert EVIL in names(page)
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    ours = [told["request"]["url"] for told in sent if told["documentURL"] == page.current_url]  # not the browser's own
    assert page.current_url in ours
    assert {url.split(":")[0] for url in ours} <= {"file", "data"}
    schemes = {told["request"]["url"].split(":")[0] for told in sent}  # frames and the browser's own pages included
    assert all(scheme in ("file", "data", "about") or scheme.startswith("chrome") for scheme in schemes)
    assert page.get_log("browser") == []


def test_columns_sort_both_ways_and_say_so(page):
    """A heading's button sorts by its column, again the other way round, and tells a screen reader."""
    before = names(page)
    assert before[:2] == ["optimal", "TD3+BC"]
    score = heading(page, "score")
    score.find_element("css selector", "button").click()
    assert score.get_attribute("aria-sort") == "descending"
    assert names(page)[:2] == ["optimal", "TD3+BC"]
    score.find_element("css selector", "button").click()
    assert score.get_attribute("aria-sort") == "ascending"
    assert names(page) == list(reversed(before))
    assert "ascending" in page.find_element("id", "status").text
    assert heading(page, "rank").get_attribute("aria-sort") is None
    entry = heading(page, "entry")
    entry.find_element("css selector", "button").click()
    assert names(page) == sorted(before, key=str.lower)
    heading(page, "better than BC").find_element("css selector", "button").click()
    assert names(page)[0] == "TD3+BC"  # reference rows have no such number and stand last
    assert set(names(page)[-6:]) == {"BC", "optimal", "shrunk", "imitation", "behavior", "random"}


def test_the_filter_shows_one_tier(page):
    """The radio buttons hide the other tier, and bring it back."""
    shown = lambda: [s.is_displayed() for s in page.find_elements("css selector", "section.tier")]  # noqa: E731
    assert shown() == [True, True]
    for value, expected in (("verified", [False, True]), ("self-reported", [True, False]), ("all", [True, True])):
        page.find_element("css selector", f"input[value={value}]").click()
        assert shown() == expected


def test_the_keyboard_alone_is_enough(page):
    """Tab reaches the headings, whose focus is visible, and Enter sorts."""
    keys = pytest.importorskip("selenium.webdriver").Keys
    body = page.find_element("css selector", "body")
    body.send_keys(keys.TAB)
    assert page.switch_to.active_element.text == "Skip to the ranking"
    for _ in range(12):
        page.switch_to.active_element.send_keys(keys.TAB)
        if page.switch_to.active_element.text.startswith("gap closed"):
            break
    active = page.switch_to.active_element
    assert active.tag_name == "button"
    assert active.value_of_css_property("outline-style") == "solid"
    assert float(active.value_of_css_property("outline-width").removesuffix("px")) >= 2
    active.send_keys(keys.ENTER)
    assert heading(page, "gap closed").get_attribute("aria-sort") == "descending"
    page.find_element("css selector", "summary").send_keys(keys.ENTER)
    assert page.find_element("css selector", "details table").is_displayed()


@pytest.mark.parametrize("size", [PHONE, DESKTOP, (320, 568)], ids=["phone", "desktop", "small phone"])
def test_the_page_fits_any_width(page, size):
    """Only tables and figures scroll sideways, each in its own frame; nothing is cut off, and names stay in view."""
    resize(page, size)
    width = page.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]
    page.execute_script("document.querySelectorAll('.scroll')[0].scrollLeft = 10000")
    left = page.execute_script("return document.querySelector('.board tbody th').getBoundingClientRect().left")
    assert 0 <= left < size[0] / 2
    assert len(page.get_screenshot_as_png()) > 10_000
    small = page.execute_script(
        """return [...document.querySelectorAll('button, summary, .filter label')].filter(
            e => e.getBoundingClientRect().height < 24).length"""
    )
    assert small == 0  # a finger hits it


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page, scheme):
    """Every color of text has a contrast of 4.5 or more with what is behind it (WCAG 2.2, 1.4.3)."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    pairs = page.execute_script(
        """const back = element => {
             for (let e = element; e; e = e.parentElement) {
               const color = getComputedStyle(e).backgroundColor;
               if (color !== 'rgba(0, 0, 0, 0)') return color;
             }
             return 'none';
           };
           return [...document.querySelectorAll('body *:not(svg *)')].filter(e => e.offsetParent && e.innerText)
             .map(e => [getComputedStyle(e).color, back(e), e.tagName]);"""
    )
    assert len(pairs) > 50
    assert ("rgb(255, 255, 255)" in {pair[1] for pair in pairs}) == (scheme == "light")
    faint = {(*pair, round(contrast(*pair[:2]), 2)) for pair in map(tuple, pairs) if contrast(*pair[:2]) < 4.5}
    assert faint == set()


def contrast(one, other):
    """The contrast of two colors, as WCAG defines it."""

    def luminance(color):
        parts = [float(part) / 255 for part in color.strip("rgba()").split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
