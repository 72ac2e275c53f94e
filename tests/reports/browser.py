"""A real browser, driven by the DevTools protocol through a pipe, without a package."""

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe"),
)
TIMEOUT_SECONDS = 240


def found():
    """Return the browser of this machine; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one tab, in ``folder`` for all that it keeps."""

    def __init__(self, folder):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The protocol wants its pipes as descriptors 3 and 4, whatever we have.
        start = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        command = ["bash", "-c", start, found(), *FLAGS, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self._in, False)
        self._rest, self._number, self._session = b"", 0, None
        self.events = []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method, **parameters):
        """Ask for ``method``; what happens meanwhile goes into ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        """Show a file, and wait until it is there with all that its script does."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def wait_for(self, event):
        while all(each.get("method") != event for each in self.events):
            self.events.append(self._next())

    def ask(self, expression):
        """Return what an expression is worth in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector):
        return self.ask(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        chosen = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.ask(f"{chosen}.map((each) => each.textContent)")

    def point(self, selector, across=0.5, down=0.5, *, click=False):
        """Move the pointer to a place in an element, as a hand would; maybe click."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{element}.scrollIntoView({{block: 'center'}})")
        box = self.ask(f"{element}.getBoundingClientRect().toJSON()")
        x = box["left"] + across * box["width"]
        y = box["top"] + down * box["height"]
        self._mouse("mouseMoved", x, y)
        if click:
            self._mouse("mousePressed", x, y, button="left", clickCount=1)
            self._mouse("mouseReleased", x, y, button="left", clickCount=1)

    def press(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def prefer(self, scheme):
        wish = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[wish])

    def resize(self, width, height=900):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self):
        """Return a picture of the whole page, as PNG."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return b64decode(taken["data"])

    @property
    def complaints(self):
        """What the browser objected to: errors of the script, blocked or lost files."""
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [each for each in self.events if each.get("method") in bad]

    @property
    def fetched(self):
        """The addresses that the page asked for."""
        return [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]

    def _mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def _next(self):
        ends = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._rest:
            assert self._process.poll() is None, "the browser has ended"
            assert time.monotonic() < ends, "the browser does not answer"
            try:
                self._rest += os.read(self._in, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
