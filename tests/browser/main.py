"""Runs every test_*.py of this folder and prints `N passed, N failed`: main.py FOLDER_FOR_SCREENSHOTS [PATTERN]"""
import os
import sys
import unittest

import page


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    page.screenshots = sys.argv[1]
    os.makedirs(page.screenshots, exist_ok=True)
    loader = unittest.TestLoader()
    if len(sys.argv) > 2:
        loader.testNamePatterns = ["*%s*" % sys.argv[2]]
    suite = loader.discover(os.path.dirname(os.path.abspath(__file__)), pattern="test_*.py")
    try:
        result = unittest.TextTestRunner(resultclass=Result, verbosity=2, stream=sys.stdout).run(suite)
    finally:
        page.stop()
    failed = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.passed, failed))
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main())
