"""A real browser for tests of a page: headless Chromium, driven by Selenium."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium():
    """A fresh browser that keeps nothing; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'smeoffline[dev]'")
    browser = next((path for path in map(shutil.which, PROGRAMS) if path is not None), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs a browser: chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(driver, log_output=os.devnull)
        page = webdriver.Chrome(options=options, service=service)
        try:
            yield page
        finally:
            page.quit()
