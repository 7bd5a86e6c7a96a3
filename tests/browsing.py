"""A headless Chromium, driven over its DevTools protocol: real widths, colour schemes and keys, and what its console said."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_START_SECONDS_MAX = 300.0
_LOAD_SECONDS_MAX = 300.0
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


def chromium() -> str | None:
    """The browser's program; None where no browser is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


# Where HINDCAST_REQUIRE_BROWSER is set, a missing browser fails these tests.
needs_browser = pytest.mark.skipif(
    chromium() is None and not os.environ.get("HINDCAST_REQUIRE_BROWSER"),
    reason="no Chromium is installed; on Debian: apt-get install chromium",
)


class Browser:
    """One browser with one tab. `complaints` holds what its console reported: script errors, refused resources."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self.complaints: list[str] = []
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        program = chromium()
        assert program is not None, f"HINDCAST_REQUIRE_BROWSER is set, and none of {', '.join(NAMES)} is installed"
        self._process = subprocess.Popen(
            [program, *_OPTIONS, f"--user-data-dir={self._profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port, path = self._port_file().read_text().split()
            self._connecting = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, open_timeout=60)
            self._socket: ClientConnection = self._connecting.__enter__()
        except BaseException:
            self._end()
            raise
        target = self._send("Target.getTargets")["targetInfos"]
        page = next(entry["targetId"] for entry in target if entry["type"] == "page")
        self._session: str | None = self._send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connecting.__exit__(kind, error, trace)
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait(timeout=20)

    def _port_file(self) -> Path:
        """Where the browser writes the address of its protocol, once it is written."""
        file = self._profile / "DevToolsActivePort"
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if file.exists() and len(file.read_text().split()) == 2:
                return file
            assert self._process.poll() is None, "the browser ended at its start"
            time.sleep(0.05)
        raise AssertionError("the browser did not start")

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window and the colours that the reader prefers."""
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._send("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._events.clear()
        self._send("Page.navigate", url=url)
        self.wait_for_load()

    def wait_for_load(self) -> None:
        """Wait until the page that is being opened is loaded."""
        deadline = time.monotonic() + _LOAD_SECONDS_MAX
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            assert time.monotonic() < deadline, "the page was not loaded in time"
            self._receive(deadline - time.monotonic())
        self._events.clear()

    def wait_until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true of the page, whichever it is by then."""
        deadline = time.monotonic() + _LOAD_SECONDS_MAX
        while self.ask(f"document.readyState === 'complete' && Boolean({expression})") is not True:
            assert time.monotonic() < deadline, f"never became true: {expression}"
            time.sleep(0.1)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; None while the page changes."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer or "Cannot find context" in str(answer), answer
        return answer.get("result", {}).get("value")

    def press(self, key: str) -> None:
        """Press a key, as a person without a mouse does."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def screenshot(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._send("Page.captureScreenshot", format="png")["data"])

    def printed(self) -> bytes:
        """The page as PDF on A4 sheets."""
        return base64.b64decode(self._send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])

    def print_media(self) -> None:
        """Show the page as it is printed; `look` ends that."""
        self._send("Emulation.setEmulatedMedia", media="print")

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = self._receive(_LOAD_SECONDS_MAX)
            if answer.get("id") == self._number:
                if "error" in answer:
                    # While a page is left, its context is gone.
                    return {"exceptionDetails": "Cannot find context", "error": answer["error"]}
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, seconds: float) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=seconds))
        if "method" in message:
            self._events.append(message)
            if message["method"] == "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            elif message["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(message["params"]["exceptionDetails"]))
        return message
