"""The site in a real browser: no console error, charts that say what tables say, keyboard, phone, dark, print."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("plotly", reason="not run: needs the chart library that plotly ships")
pytest.importorskip("ruptures", reason="not run: needs ruptures")


def address(site: Path, name: str) -> str:
    return (site / name).as_uri()


def series_page(site: Path, start: str) -> str:
    return next(
        f"series/{path.name}" for path in sorted((site / "series").iterdir()) if path.name.startswith(start)
    )


def errors(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]


def test_no_page_logs_an_error_or_needs_the_network(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    pages = sorted(path.relative_to(site) for path in site.rglob("*.html"))
    kinds = {path.parent.name or path.name: path for path in pages}
    assert {"index.html", "compare.html", "correctness.html", "fuzz.html", "series", "kernels", "commits"} <= set(
        kinds
    )
    for path in kinds.values():
        driver.get(address(site, str(path)))
        assert driver.find_element("tag name", "h1").text
        assert errors(driver) == []
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert all(name.startswith(("file:", "data:")) for name in loaded)


def test_every_link_leads_to_a_page(site: Path) -> None:
    import re

    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#:]+)(?:#[^"]*)?"', page.read_text(encoding="utf-8")):
            assert (page.parent / target).resolve().is_file(), f"{page.name} links to {target}"


def test_the_overview_gives_the_verdict_first(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    driver.get(address(site, "index.html"))
    today = driver.find_element("css selector", ".today").text
    assert today.startswith("SLOWER:")
    assert "1 worse" in today
    field = driver.find_element("css selector", "input[data-filters]")
    field.send_keys("row_scatter")
    shown = driver.execute_script(
        "return [...document.querySelectorAll('#series-builtin tbody tr')].filter(r => !r.hidden).length"
    )
    assert shown == 1
    assert driver.find_element("css selector", "[role=status]").text == "1 of 4 rows"


def test_a_chart_shows_values_steps_and_seams_and_reads_by_keyboard(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    driver.get(address(site, series_page(site, "builtin-window-write-decode-b64-q1-NVIDIA")))
    chart = driver.find_element("css selector", ".chart")
    state = driver.execute_script(
        "const c = document.querySelector('.chart');"
        "const {shapes, annotations} = c.layout;"
        "return {points: c.data.at(-1).y.length, lines: shapes.length, notes: annotations.length}"
    )
    assert state == {"points": 40, "lines": 2, "notes": 1}
    assert chart.get_attribute("role") == "img"
    assert "1 step." in chart.get_attribute("aria-label")
    driver.execute_script("arguments[0].focus()", chart)
    from selenium.webdriver.common.keys import Keys

    chart.send_keys(Keys.END)
    reading = driver.find_element("css selector", ".reading")
    assert "microseconds" in reading.text
    last = driver.find_element("css selector", "details table tbody tr td:nth-child(3)").get_attribute(
        "textContent"
    )
    assert last.strip()[:4] in reading.text
    for _ in range(5):
        chart.send_keys(Keys.ARROW_LEFT)
    assert "a step of +" in reading.text


def test_every_control_is_reached_by_tab_and_has_a_name(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    driver.get(address(site, "compare.html"))
    from selenium.webdriver.common.keys import Keys

    seen: list[str] = []
    for _ in range(14):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(
            driver.execute_script("return document.activeElement.id || document.activeElement.textContent")
        )
    assert seen[0] == "Skip to content"
    assert {"target", "old", "new", "all"} <= set(seen)
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('select, input')].filter(e => !e.labels.length).length"
    )
    assert unnamed == 0


def test_two_commits_compare(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    driver.get(address(site, "compare.html"))
    from selenium.webdriver.support.ui import Select, WebDriverWait

    Select(driver.find_element("id", "old")).select_by_index(10)
    Select(driver.find_element("id", "new")).select_by_index(39)
    rows = "return [...document.querySelectorAll('#comparison tbody tr')].map(r => r.textContent)"
    WebDriverWait(driver, 20).until(lambda d: any("instructions" in row for row in d.execute_script(rows)))
    found = {row.split(" on ")[0]: row for row in driver.execute_script(rows) if "instructions" in row}
    assert found["window_write/decode-b64-q1"].endswith("120129+7.50%")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_contrast_and_no_sideways_scrolling(site: Path, open_browser: Any, width: int, scheme: str) -> None:
    driver = open_browser(width, 844, scheme)
    for name in ("index.html", "correctness.html", series_page(site, "builtin-row")):
        driver.get(address(site, name))
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth + 1")
        for selector in ("body", ".soft, .note, footer p", "a", ".verdict, td"):
            ratio = driver.execute_script(CONTRAST, selector)
            assert ratio is None or ratio >= 4.5, f"{selector} on {name}: {ratio:.2f}"


CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => parse(c).map((v) => linear(v / 255))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = getComputedStyle(document.body).backgroundColor;
const ratios = [...document.querySelectorAll(arguments[0])].map((e) => {
  const [a, b] = [light(getComputedStyle(e).color), light(ground)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
});
return ratios.length ? Math.min(...ratios) : null;
"""


def test_it_prints(site: Path, open_browser: Any, tmp_path: Path) -> None:
    driver = open_browser()
    driver.get(address(site, series_page(site, "builtin-window-write-decode-b64-q1-NVIDIA")))
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000


def test_titles_of_commits_are_escaped(site: Path, open_browser: Any) -> None:
    driver = open_browser()
    from site_data import NAUGHTY, commit

    page = next((site / "commits").glob(f"*{commit(5)[:12]}.html"))
    driver.get(page.as_uri())
    assert NAUGHTY in driver.find_element("tag name", "h1").text
    assert errors(driver) == []
