"""The Python of the documents that needs a package runs as it is pasted."""
import pathlib
import re
import subprocess
import sys
import unittest

from daemon import Daemon

ROOT = pathlib.Path(__file__).parents[2]


class Examples(unittest.TestCase):
    def test_they_run(self):
        blocks = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
        blocks += re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/api.md").read_text(), re.S | re.M)
        self.assertGreater(len(blocks), 1)
        with Daemon() as daemon:
            for block in blocks:
                code = block.replace("127.0.0.1:8080", daemon.address)
                ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertTrue(ran.stdout)


if __name__ == "__main__":
    unittest.main()
