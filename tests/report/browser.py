"""A real browser for the tests: Chromium, driven through chromedriver's own HTTP protocol (W3C
WebDriver) with nothing but the standard library."""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "home": "\ue011",
        "end": "\ue010", "tab": "\ue004", "escape": "\ue00c", "space": " ", "enter": "\ue007"}


def why_absent():
    """Why there is no browser to test with, or None."""
    if not CHROMIUM:
        return "there is no chromium (tools/setup browser)"
    return None if DRIVER else "there is no chromedriver (tools/setup browser)"


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix="terse-browser-")
        # chromedriver chooses a free port and prints it
        self.driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = None
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            raise RuntimeError("chromedriver does not start")
        arguments = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update",
                     "--disable-sync", "--force-device-scale-factor=1",
                     f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox does not run as root
        if dark:
            arguments.append("--force-dark-mode")
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + made["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            self.driver.stdout.close()
            self.folder.cleanup()

    def open(self, address):
        self.call("POST", self.session + "/url", {"url": address})

    def run(self, script, *values):
        """The value of a script's `return`."""
        return self.call("POST", self.session + "/execute/sync",
                         {"script": script, "args": list(values)})

    def until(self, script, seconds=10):
        """Waits until a script returns something true, and returns it."""
        found = self.call("POST", self.session + "/execute/async", {"args": [seconds], "script": """
            const [seconds, done] = arguments;
            const began = performance.now();
            const look = () => {
              const found = (() => { %s })();
              if (found || performance.now() - began > seconds * 1000) done(found);
              else setTimeout(look, 30);
            };
            look();""" % script})
        assert found, script
        return found

    def resize(self, width, height):
        self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def prefer(self, scheme):
        """The preference of the system: light or dark."""
        self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia",
            "params": {"features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def pointer(self, x, y, clicks=0):
        """Moves the real pointer to a place in the window, and clicks there."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}]
        moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] * clicks
        self.call("POST", self.session + "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
             "actions": moves}]})

    def drag(self, start, end):
        """Presses at one place, moves to another and releases."""
        moves = [{"type": "pointerMove", "x": round(start[0]), "y": round(start[1]), "duration": 0},
                 {"type": "pointerDown", "button": 0},
                 {"type": "pointerMove", "x": round(end[0]), "y": round(end[1]), "duration": 60},
                 {"type": "pointerUp", "button": 0}]
        self.call("POST", self.session + "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
             "actions": moves}]})

    def save_to(self, folder):
        """Where downloads go."""
        self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Browser.setDownloadBehavior",
            "params": {"behavior": "allow", "downloadPath": folder}})

    def click(self, selector, times=1):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        box = self.box(selector)
        self.pointer(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, times)

    def box(self, selector):
        return self.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()",
                        selector)

    def press(self, *names):
        keys = [{"type": kind, "value": KEYS.get(name, name)}
                for name in names for kind in ("keyDown", "keyUp")]
        self.call("POST", self.session + "/actions",
                  {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def screenshot(self, path, whole=True):
        """The whole page, however long."""
        shot = self.call("POST", self.session + "/goog/cdp/execute", {
            "cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": whole}})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def logs(self, kind):
        return self.call("POST", self.session + "/se/log", {"type": kind})

    def complaints(self):
        """Warnings and errors of the console since the last call."""
        return [line["message"] for line in self.logs("browser")
                if line["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Every address that was asked for since the last call."""
        found = []
        for line in self.logs("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found
