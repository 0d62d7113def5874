"""The Python of the documents that needs packages (```py) runs as it is pasted: `print(...)  # TEXT` prints TEXT, and a block
that begins with "# NAME.py" is a file for the blocks after it."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from daemon import Daemon

ROOT = pathlib.Path(__file__).parents[2]
LEAST = {"README.md": 2, "docs/api.md": 2, "docs/cookbook.md": 4}


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
                        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder,
                                             capture_output=True, text=True, timeout=120)
                        self.assertEqual(ran.returncode, 0, ran.stderr)
                        wanted = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.M)
                        self.assertTrue(wanted or file, "the example prints nothing")
                        self.assertEqual(plain(ran.stdout), plain("\n".join(wanted)))


if __name__ == "__main__":
    unittest.main()
