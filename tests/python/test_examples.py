"""The Python of the documents that needs packages (```py) runs as it is pasted: `print(...)  # TEXT` prints TEXT, and a block
that begins with "# NAME.py" is a file for the blocks after it."""
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from daemon import Daemon

ROOT = pathlib.Path(__file__).parents[2]
CLIENT = os.environ | {"PYTHONPATH": str(ROOT / "clients/python/src")}
LEAST = {"README.md": 3, "docs/api.md": 2, "docs/cookbook.md": 4}


def plain(text):
    """Without the last digits of numbers, which differ between CPUs."""
    return re.sub(r"(\d\.\d{5})\d+", r"\1", text).strip()


class Examples(unittest.TestCase):
    def test_they_print_what_they_say(self):
        with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
            for name, least in LEAST.items():
                blocks = re.findall(r"^```py\n(.*?)^```", (ROOT / name).read_text(), re.S | re.M)
                self.assertGreaterEqual(len(blocks), least, name)
                for block in blocks:
                    with self.subTest(document=name, code=block):
                        code = block.replace("127.0.0.1:8080", daemon.address)
                        file = re.match(r"# (\w+\.py)\n", block)
                        if file:
                            (pathlib.Path(folder) / file[1]).write_text(code)
                        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, env=CLIENT,
                                             capture_output=True, text=True, timeout=120)
                        self.assertEqual(ran.returncode, 0, ran.stderr)
                        wanted = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.M)
                        self.assertTrue(wanted or file, "the example prints nothing")
                        self.assertEqual(plain(ran.stdout), plain("\n".join(wanted)))

    def test_the_retrying_example_retries(self):
        """Against a server that is busy twice: the pauses are those that it asks for."""
        block = re.search(r"^```python\n((?:(?!```).)*Retry-After.*?)^```", (ROOT / "docs/api.md").read_text(), re.S | re.M)
        with Busy() as busy:
            start = time.monotonic()
            code = block[1].replace("127.0.0.1:8080", busy.address)
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stdout.strip(), "{'output': [[1]]}")
            self.assertEqual(busy.answers, [])
            self.assertGreaterEqual(time.monotonic() - start, 3)


class Busy:
    """A server whose first answers are 429 and 503."""
    def __enter__(self):
        answers = self.answers = [(429, b"{}", 1), (503, b"{}", 2), (200, b'{"output":[[1]]}', None)]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body, pause = answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if pause:
                    self.send_header("Retry-After", str(pause))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    unittest.main()
