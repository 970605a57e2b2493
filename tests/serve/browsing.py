"""What a person does on the page, done in Debian's Chromium through chromedriver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from serving import TOKEN, wait_for

_UNFOLD = "for (const one of document.querySelectorAll('#form details')) one.open = true"


class Page:
    """What a person does on the page."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, view: str = "live") -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/#token={TOKEN}/{view}")

    def find(self, css: str, patience_s: float = 240.0) -> Any:
        return self._told(lambda: self._shown(css), patience_s)

    def press(self, css: str, which: int = 0) -> None:
        def pressed() -> bool:
            if found := self._shown(css, which):
                found.click()
            return bool(found)

        self._told(pressed)

    def words(self, css: str) -> str:
        return str(self._told(lambda: (found := self._shown(css)) and found.text))

    def attribute(self, css: str, name: str) -> str:
        found = self._told(lambda: (found := self._shown(css)) and found.get_attribute(name))
        return str(found)

    def _shown(self, css: str, which: int = 0) -> Any:
        return next((e for e in self.all(css)[which:] if e.is_displayed()), None)

    def _told(self, question: Callable[[], Any], patience_s: float = 240.0) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException

        def look() -> Any:
            with contextlib.suppress(StaleElementReferenceException):
                return question()
            return None

        return wait_for(look, patience_s)

    def all(self, css: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", css)
        return found

    def text(self, css: str) -> str:
        return str(
            self.driver.execute_script(f"return document.querySelector({css!r}).textContent")
        )

    def fill_in(self, key: str, value: str) -> None:
        self.driver.execute_script(_UNFOLD)
        field = self.find(f"[id='field-{key}']")
        field.clear()
        field.send_keys(value)

    def choose(self, key: str, *names: str) -> None:
        field = self.find(f"[id='field-{key}']")
        field.clear()
        # Backspace in an empty field removes what was chosen last.
        field.send_keys(*["\ue003"] * 8)
        for name in names:
            field.send_keys(name)
            self.find(f"[id='field-{key}-list'] [data-value='{name}'].active")
            field.send_keys("\ue007")

    def faults(self) -> list[str]:
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        return [words for words in said if self.address in words]
