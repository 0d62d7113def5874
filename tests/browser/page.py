"""The daemon, the browser, and what tests do with them."""
import contextlib
import json
import math
import os
import re
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

screenshots = None
_started = []
_driver = None
_origin = None


def daemon(*flags):
    """Starts a daemon on a free port; gives its address, once it listens."""
    process = subprocess.Popen([os.environ["ATTENTIOND"], "--port", "0", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _started.append(process)
    url = json.loads(process.stderr.readline())["url"]
    threading.Thread(target=process.stderr.read, daemon=True).start()
    for _ in range(100):
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(url + "/readyz")
            return url
        time.sleep(0.05)
    raise RuntimeError("the daemon does not become ready")


def origin():
    """Address of the daemon that all tests share."""
    global _origin
    if not _origin:
        _origin = daemon()
        if os.environ.get("PAGE_FROM_FOLDER"):
            import serve
            server = serve.start(_origin.split("//")[1])
            threading.Thread(target=server.serve_forever, daemon=True).start()
            _origin = "http://127.0.0.1:%d" % server.server_address[1]
    return _origin


def stop():
    if _driver:
        _driver.quit()
    for process in _started:
        process.terminate()
        process.wait()


def browser():
    global _driver
    if not _driver:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": os.path.abspath(os.path.join(screenshots, "downloads"))})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        _driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        _driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    return _driver


def post(path, request, **headers):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    made = urllib.request.Request(origin() + path, body, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(made) as reply:
        return json.load(reply)


def get(path, url=None):
    """Status, headers and bytes of a GET, whatever the status is."""
    made = urllib.request.Request((url or origin()) + path)
    try:
        with urllib.request.urlopen(made) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def flat(value):
    if not isinstance(value, list):
        return [-math.inf if value is None else float(value)]
    return [x for item in value for x in flat(item)]


def number(text):
    """A number as the page writes it."""
    text = text.replace("\u2212", "-")
    return {"-\u221e": -math.inf, "\u221e": math.inf, "-Infinity": -math.inf, "Infinity": math.inf}.get(text) or float(text)


def evaluate(text):
    """Value of arithmetic as the page prints it, and the result after the equals sign."""
    left, right = text.rsplit("=", 1)
    left = re.sub(r"\u221a(\d+)", r"sqrt(\1)", left)
    for sign, python in (("\u2212", "-"), ("\u00b7", "*"), ("\u00f7", "/")):
        left = left.replace(sign, python)
    if not re.fullmatch(r"[\d\s.e+\-*/()]*((exp|tanh|sqrt)[\d\s.e+\-*/()]*)*", left):
        raise ValueError("not arithmetic: " + left)
    return eval(left, {"exp": math.exp, "tanh": math.tanh, "sqrt": math.sqrt}), number(right.strip())


class PageTest(unittest.TestCase):
    """One browser for all tests; each begins at an address of its own."""

    def setUp(self):
        self.driver = browser()
        self.driver.get_log("browser")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.size(1400, 1000)

    def tearDown(self):
        if self.expected_errors is not None:
            found = [entry["message"] for entry in self.driver.get_log("browser") if not any(part in entry["message"] for part in self.expected_errors)]
            self.assertEqual(found, [], "the console is not empty")

    expected_errors = ()  # parts of console messages that a test brings about: the browser reports every 4xx

    def size(self, width, height, ratio=1, mobile=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": mobile})

    def theme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def open(self, fragment="", ready=None):
        self.driver.get("about:blank")
        self.driver.get(origin() + "/" + fragment)
        view = (fragment.lstrip("#").split("?")[0] or "walk")
        self.wait(ready or READY[view])

    def wait(self, script, seconds=20):
        """Until a JavaScript expression is true."""
        end = time.time() + seconds
        while time.time() < end:
            value = self.driver.execute_script("return " + script)
            if value:
                return value
            time.sleep(0.03)
        self.fail("still waiting for " + script)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        for _ in range(3):
            with contextlib.suppress(StaleElementReferenceException):
                return self.one(selector).text
        return self.one(selector).text

    def script(self, text, *values):
        return self.driver.execute_script(text, *values)

    def hover(self, element, x=0, y=0):
        ActionChains(self.driver).scroll_to_element(element).move_to_element_with_offset(element, x, y).perform()

    def choose(self, selector, value):
        self.script("const e = document.querySelector(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('change', {bubbles: true}))", selector, value)

    def shot(self, name):
        height = self.script("return document.documentElement.scrollHeight")
        width = self.script("return innerWidth")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": min(height, 4000), "deviceScaleFactor": 1, "mobile": width < 600})
        time.sleep(0.3)
        self.driver.save_screenshot(os.path.join(screenshots, name + ".png"))

    def fragment(self):
        """The link's state, once it has settled."""
        before = None
        while True:
            now = self.script("return location.hash")
            if now == before:
                return now
            before = now
            time.sleep(0.3)

    def matrix(self, name, attribute="data-value"):
        """Numbers of a matrix of the walk-through, from the screen."""
        return self.script("return [...document.querySelectorAll(`[data-id='${arguments[0]}'] [data-i]`)].map((e) => e.getAttribute(arguments[1]))", name, attribute)

    def matrices(self):
        """All matrices of the walk-through by name."""
        found = self.script("return [...document.querySelectorAll('#walk .figure [data-id]')].map((e) => [e.dataset.id, [...e.querySelectorAll('[data-i]')].map((c) => c.dataset.value)])")
        return {name: [number(text) for text in values] for name, values in found}


READY = {
    "walk": "document.querySelector('#walk .figure [data-id=output]') && document.querySelector('#walk [data-part=status]').textContent === ''",
    "explore": "document.querySelector('#explore [data-part=shape]').textContent !== '' && document.querySelector('#explore [data-part=status]').textContent === ''",
    "compare": "document.querySelector('#compare [data-part=summary]').textContent !== ''",
    "check": "!document.querySelector('#check [data-part=result]').hidden",
    "cost": "document.querySelector('#cost svg.chart')",
}
