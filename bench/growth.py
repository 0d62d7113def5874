"""How the time of each pattern of open cells grows as n doubles, and what it costs beside as many open cells in full
problems.

    growth.py CORE_BENCH [ROUNDS]

Rounds alternate between all measurements; each figure is a median.
"""
import statistics
import subprocess
import sys

SIZES = (16384, 32768, 65536)
# pattern: (options of core_bench, open cells of a row, the full problem of as many cells: n, and how many of them)
PATTERNS = {
    "window of 256 each side": ("window=256", lambda n: 513, None),
    "segments of 512": ("segment=512", lambda n: 512, (512, lambda n: n // 512)),
}


def main(program, rounds=7):
    bench = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(options):
        bench.stdin.write(f"attention {options}\n")
        bench.stdin.flush()
        return float(bench.stdout.readline())

    lines = {(name, n): f"n={n} {row[0]}" for name, row in PATTERNS.items() for n in SIZES}
    lines |= {(name, "full"): f"n={row[2][0]}" for name, row in PATTERNS.items() if row[2]}
    lines["cells", "full"] = "n=4096"
    times = {key: [] for key in lines}
    for _ in range(int(rounds)):
        for key, line in lines.items():
            times[key].append(measure(line))
    median = {key: statistics.median(found) for key, found in times.items()}
    print("One head, d = 64, float32, one thread. Growth: the time at n over that at n / 2. The last column compares\n"
          "the greatest n with as many open cells: separate problems of one segment each, or a share of a full one.\n")
    print("| pattern | " + " | ".join(f"n = {n:,}" for n in SIZES) + " | growth | beside full problems |")
    print("| --- |" + " ---: |" * (len(SIZES) + 2))
    for name, (_, cells, separate) in PATTERNS.items():
        own = [median[name, n] for n in SIZES]
        full = median["cells", "full"] / 4096**2 * cells(SIZES[-1]) * SIZES[-1]
        if separate:
            full = median[name, "full"] * separate[1](SIZES[-1])
        growth = ", ".join(f"{b / a:.2f}" for a, b in zip(own, own[1:]))
        print(f"| {name} | " + " | ".join(f"{1e3 * t:.0f} ms" for t in own) + f" | {growth} | {own[-1] / full:.2f} |")


main(*sys.argv[1:])
