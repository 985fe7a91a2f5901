"""Drives the Chromium of this machine over a pipe, by the DevTools protocol; needs no package and opens no port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 30.0
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # root, as a container is, may not use it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",  # its reports would go to the home folder
    "--remote-debugging-pipe",
)
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40, " ": 32}


def find_chromium() -> str | None:
    """Give the path of a Chromium, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One headless Chromium with a profile of its own. Close it."""

    def __init__(self, command: str, profile: Path) -> None:
        ours, its = os.pipe(), os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4; plain sh knows descriptors below 10 only.
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{ours[0]} 4>&{its[1]}',
                "bash",
                command,
                *FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=(ours[0], its[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(its[1])
        self._to, self._from = ours[1], its[0]
        self._unread = b""
        self._ids = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer; events that come meanwhile are kept."""
        self._ids += 1
        message = {"id": self._ids, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            answer = self._read(deadline_s)
            if answer.get("id") == self._ids:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, deadline_s: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], max(deadline_s - time.monotonic(), 0))
            chunk = os.read(self._from, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("no answer from Chromium")
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def tab(self, *, width: int = 1280, height: int = 860, dark: bool = False, media: str = "") -> Tab:
        """Open an empty tab."""
        made = self.call("Target.createTarget", url="about:blank")
        session = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)["sessionId"]
        tab = Tab(self, made["targetId"], session)
        for domain in ("Page", "Runtime", "Network", "Log", "DOM", "Accessibility"):
            tab.call(f"{domain}.enable")
        tab.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        return tab

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(LIMIT_S)
        os.close(self._to)
        os.close(self._from)


class Tab:
    """One tab."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something of this tab."""
        return self._browser.call(method, self._session, **params)

    def events(self, method: str) -> list[dict[str, Any]]:
        """Give what has happened so far, by the name of the event."""
        self.call("Runtime.evaluate", expression="0")
        found = [each for each in self._browser.events if each.get("sessionId") == self._session]
        return [each["params"] for each in found if each["method"] == method]

    def open(self, url: str) -> Tab:
        """Go to a page and wait until its list is shown and the file is read."""
        self.call("Page.navigate", url=url)
        self.wait("performance.getEntriesByName('runs-listed').length && document.readyState === 'complete'")
        return self

    def evaluate(self, expression: str) -> Any:
        """Give the value of an expression of the page's script."""
        # Told so, DevTools keep to the page's policy, `eval` included.
        held = {"returnByValue": True, "awaitPromise": True, "allowUnsafeEvalBlockedByCSP": False}
        answer = self.call("Runtime.evaluate", expression=expression, **held)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline_s = time.monotonic() + LIMIT_S
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > deadline_s:
                raise TimeoutError(condition)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, as a person does; `Shift+Tab` holds Shift."""
        for key in keys:
            name = key.removeprefix("Shift+")
            code = KEYS.get(name, ord(name[-1].upper()))
            text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
            held = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if name != key else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **held)
            self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def named(self) -> list[tuple[str, str]]:
        """Give role and name of everything that a screen reader meets, in its order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node.get("role", {}).get("value", ""), node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]

    def picture(self, file: Path | None = None) -> bytes:
        """Take a screenshot of what is in view, as PNG."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if file is not None:
            file.write_bytes(data)
        return data

    def close(self) -> None:
        """Close it."""
        self._browser.call("Target.closeTarget", targetId=self._target)
