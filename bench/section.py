"""Runs a bench and writes what it prints to a section of docs/performance.md, between two markers.

    section.py NAME PROGRAM [ARGUMENT ...]
"""
import pathlib
import platform
import subprocess
import sys

FILE = pathlib.Path("docs/performance.md")


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main(name, *command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(result, end="")
    begin, end = f"<!-- {name}: written by make bench -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{cpu()}.\n\n{result.rstrip()}\n{end}"
    text = FILE.read_text() if FILE.exists() else "# Performance\n"
    if begin in text and end in text:
        head, rest = text.split(begin, 1)
        text = head + section + rest.split(end, 1)[1]
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    FILE.write_text(text)


main(*sys.argv[1:])
