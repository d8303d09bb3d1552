"""A headless Chromium, spoken to over a pipe in its own DevTools protocol: no driver, no package."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Those of a machine without a screen, a user session or a network.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic")
FLAGS += ("--no-first-run", "--disable-background-networking", "--disable-component-update")
FLAGS += ("--disable-sync", "--remote-debugging-pipe")
# The browser listens on 3 and answers on 4.
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
SECONDS = 60


def find_chromium():
    """Path of a Chromium or Chrome: $CHROMIUM, or the first on the path; None if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def _pipe():
    """Both ends of a pipe, with numbers out of the way of 3 and 4."""
    import fcntl  # not on Windows, where no browser is started

    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved


class Browser:
    """One page of a running browser. Everything that the page logs or throws is collected."""

    def __init__(self, program, profile):
        to_read, self._write = _pipe()
        self._read, to_write = _pipe()
        command = [sys.executable, "-c", START, str(to_read), str(to_write), shutil.which(program), *FLAGS]
        command += [f"--user-data-dir={profile}", "about:blank"]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdout=nothing, stderr=nothing
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._last, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """The answer to a command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"the browser said nothing for {SECONDS} s.")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended.")
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, *, width=1200, height=900, dark=False):
        """Load a file in a window of this size, and forget what was logged before."""
        window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression is true."""
        deadline = time.monotonic() + SECONDS
        while not self.run(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} did not come true within {SECONDS} s.")
            time.sleep(0.01)

    def click(self, selector):
        """Click on the middle of an element, scrolled into view, as a person would."""
        x, y = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'});"
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame);"  # what scrolling sets off
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def complaints(self):
        """What was logged, thrown, blocked, asked for by dialog or requested over a network."""
        self.run("0")
        kinds = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"]
        kinds += ["Page.javascriptDialogOpening", "Network.requestWillBeSent"]
        found = [(e["params"].get("request"), e) for e in self.events if e.get("method") in kinds]
        return [e for request, e in found if not (request and request["url"].startswith(("file:", "data:")))]

    def screenshot(self, path):
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def pdf(self, path):
        """Print the page."""
        answer = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        """End the browser and what it started."""
        self._session = None
        with contextlib.suppress(RuntimeError, OSError, TimeoutError):
            self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
