"""A browser: Debian's chromium, driven by selenium. Where either is absent the tests say so and do not run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture
def open_browser() -> Iterator[Any]:
    """Called with a width, a height and a colour scheme; gives a driver. All are closed at the end of the test."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("not run: needs chromium and chromedriver (Debian's packages chromium and chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="not run: needs selenium")
    opened: list[Any] = []

    def open_one(width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        options.add_argument(f"--window-size={width},{height}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        opened.append(driver)
        driver.set_page_load_timeout(60)
        driver.set_script_timeout(60)
        # The window of a headless browser has a least width that a phone is below.
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        # No network at all: the site must open from disk alone.
        driver.execute_cdp_cmd("Network.enable", {})
        conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)
        return driver

    yield open_one
    for driver in opened:
        driver.quit()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of a small generated history, records and a finding."""
    from site_data import build

    return build(tmp_path_factory.mktemp("site") / "site")
