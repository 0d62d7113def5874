"""`make bench`: measures core/ and the other libraries side by side and writes docs/performance.md and its picture.

    run.py CORE_BENCH [--rounds N] [--quick]

For each number of threads a process of its own is pinned to as many CPUs; ours is asked over a pipe by that process, on
the same CPUs. A round measures every contender once, one after the other; a figure is the median of the rounds, and a
ratio the median of the rounds' ratios, so that a machine that slows down for a while slows down both.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [(8, 256, 64), (8, 1024, 64), (8, 4096, 64), (16, 1024, 128)]
READ_BYTES = 1 << 28
SHORTEST = 0.002
PAUSE = 0.02  # the threads of some libraries spin for a while after their work


class Ours:
    def __init__(self, program, cpus):
        command = ["taskset", "-c", ",".join(map(str, cpus)), program]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def ask(self, line):
        answer = self.answer(line)
        try:
            return float(answer)
        except ValueError:
            sys.exit(f"core_bench on {line!r}: {answer!r}")


def timed(run):
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    if seconds >= SHORTEST:
        return seconds
    count = int(SHORTEST / seconds) + 1
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def alternate(contenders, rounds):
    """contenders: name -> function giving seconds. Gives name -> the seconds of each round."""
    times = {name: [] for name in contenders}
    for measure in contenders.values():
        measure()
    for _ in range(rounds):
        for name, measure in contenders.items():
            time.sleep(PAUSE)
            times[name].append(measure())
    return times


def attention_line(heads, n, d, threads, **more):
    extra = "".join(f" {name}={number}" for name, number in more.items())
    return f"attention heads={heads} n={n} d={d} threads={threads}{extra}"


def measure_threads(program, threads, cpus, rounds, quick):
    """Runs in a process that is pinned to `cpus`. Gives group -> row -> contender -> times."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import peers
    ours = Ours(program, cpus)

    def asks(line):
        return lambda: ours.ask(line)

    def attempt(make, *arguments):
        run = make(*arguments)
        return lambda: timed(run)

    found = {"versions": peers.versions(), "attention": {}, "ours": {}}
    makers = peers.attention_peers()
    for causal in (0, 1):
        for heads, n, d in SHAPES[:2] if quick else SHAPES:
            contenders = {"ours": asks(attention_line(heads, n, d, threads, causal=causal)), "fma": asks("fma")}
            for name, make in makers.items():
                contenders[name] = attempt(make, heads, n, d, causal, threads)
            found["attention"][f"{heads} {n} {d} {causal}"] = alternate(contenders, rounds)
    layer = {"ours": asks(f"mha heads=12 n=512 d_model=768 threads={threads}"),
             "ONNX Runtime": attempt(peers.onnx_layer, 12, 512, 768, threads),
             "NumPy": attempt(peers.numpy_layer, 12, 512, 768, threads)}
    found["layer"] = alternate(layer, rounds)
    lines = {"full": attention_line(8, 1024, 64, threads), "causal": attention_line(8, 1024, 64, threads, causal=1),
             "weights": attention_line(8, 1024, 64, threads, weights=1),
             "double": attention_line(8, 1024, 64, threads, f64=1)}
    found["ours"] = alternate({name: asks(line) for name, line in lines.items()}, rounds)
    windows = {str(n): asks(attention_line(1, n, 64, threads, window=256)) for n in (8192, 16384, 32768)}
    found["window"] = alternate(windows, rounds)
    found["decode"] = alternate({
        "decode": asks(f"attention heads=32 kv_heads=8 n_q=1 n_k=65536 d=128 threads={threads}"),
        "read": asks(f"read threads={threads}")}, rounds)
    if threads == 1:
        found["tiny"] = alternate({"ours": asks("tiny"), "loop": asks("loop")}, rounds)
        limits = ["fma", "blas"] + ["xsmm"] * ours.answer("xsmm")[:1].isdigit()  # no libxsmm but for x86-64
        found["limits"] = alternate({name: asks(name) for name in limits}, rounds)
        found["memory"] = {str(n): ours.ask(f"memory heads=1 n={n} d=64") for n in (65536, 131072)}
        if not quick:
            found["long"] = {str(n): [ours.ask(attention_line(1, n, 64, threads))] for n in (65536, 131072)}
    return found


def ratio(times, slow, fast):
    """How many times as long `slow` takes: the median over the rounds"""
    return statistics.median(s / f for s, f in zip(times[slow], times[fast]))


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    names = set(re.findall(r"model name\s*: (.*)", text))
    return f"{' / '.join(names) or platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, {platform.system()} " \
           f"{platform.release()}"


def milliseconds(times):
    return f"{statistics.median(times) * 1e3:.3g}"


def verdict(reached, wanted, more=True):
    return "yes" if (reached >= wanted if more else reached <= wanted) else "**no**"


def attention_table(result):
    makers = [name for name in next(iter(result["1"]["attention"].values())) if name not in ("ours", "fma")]
    out = ["| heads × n × d | causal | threads | ours, ms | GFLOP/s | of the FMA peak | " +
           " | ".join(f"{name}: ms (ratio)" for name in makers) + " |",
           "| --- | --- | --- | ---: | ---: | ---: |" + " ---: |" * len(makers)]
    for threads, found in result.items():
        for row, times in found["attention"].items():
            heads, n, d, causal = map(int, row.split())
            pairs = n * (n + 1) / 2 if causal else n * n
            flops = 4 * heads * pairs * d
            peak = statistics.median(flops * fma / int(threads) / s for s, fma in zip(times["ours"], times["fma"]))
            cells = [f"{heads} × {n} × {d}", "yes" if causal else "no", threads, milliseconds(times["ours"]),
                     f"{flops / statistics.median(times['ours']) / 1e9:.0f}", f"{peak:.2f}"]
            cells += [f"{milliseconds(times[name])} ({ratio(times, name, 'ours'):.2f})" for name in makers]
            out.append("| " + " | ".join(cells) + " |")
    return out


def goals(result):
    """(what, reached, goal, met)"""
    rows = []

    def add(what, reached, wanted, more=True, unit=""):
        sign = "≥" if more else "≤"
        rows.append((what, f"{reached:.2f}{unit}", f"{sign} {wanted}{unit}", verdict(reached, wanted, more)))

    for threads, found in result.items():
        place = f", {threads} thread" + ("s" if threads != "1" else "")
        for row, times in found["attention"].items():
            heads, n, d, causal = map(int, row.split())
            shape = f"{heads} × {n} × {d}{', causal' if causal else ''}{place}"
            for name in times:
                if name in ("ours", "fma"):
                    continue
                onnx = name.startswith("ONNX")
                if causal and not (onnx and n >= 1024):
                    continue
                add(f"{shape}, against {name}", ratio(times, name, "ours"),
                    3.0 if causal else 1.0 if name == "OpenVINO" else 1.15)
            if n == 4096 and not causal:
                flops = 4 * heads * n * n * d
                add(f"{shape}, of the FMA peak", statistics.median(
                    flops * fma / int(threads) / s for s, fma in zip(times["ours"], times["fma"])), 0.85)
        add(f"causal against full, 8 × 1024 × 64{place}", ratio(found["ours"], "causal", "full"), 0.55, False)
        add(f"weights asked for against not{place}", ratio(found["ours"], "weights", "full"), 2.5, False)
        add(f"float64's rate against float32's{place}", ratio(found["ours"], "full", "double"), 0.45)
        window = found["window"]
        add(f"window of 256, n 8,192 → 16,384{place}", ratio(window, "16384", "8192"), 2.2, False)
        add(f"window of 256, n 16,384 → 32,768{place}", ratio(window, "32768", "16384"), 2.2, False)
        decode = found["decode"]
        moved = 2 * 8 * 65536 * 128 * 4
        add(f"decoding's use of the read bandwidth{place}", statistics.median(
            (moved / s) / (READ_BYTES / r) for s, r in zip(decode["decode"], decode["read"])), 0.8)
        for name in ("ONNX Runtime", "NumPy"):
            add(f"/mha 768 wide, n = 512, against {name}{place}", ratio(found["layer"], name, "ours"), 1.1)
    one = result["1"]
    add("the worked example against plain loops", ratio(one["tiny"], "ours", "loop"), 3, False)
    for n, size in one["memory"].items():
        add(f"workspace, 1 head, n = {int(n):,}", size / 2**20, 64 if n == "65536" else 128, False, " MiB")
    if "2" in result:
        for row in one["attention"]:
            heads, n, d, causal = map(int, row.split())
            two = result["2"]["attention"][row]["ours"]
            add(f"2 threads against one, {heads} × {n} × {d}{', causal' if causal else ''}",
                statistics.median(one["attention"][row]["ours"]) / statistics.median(two), 1.85)
    return rows


def limits_table(result):
    one, out = result["1"], ["| the machine, one core | |", "| --- | ---: |"]
    limits, tile = one["limits"], 2.0 * 64 * 128 * 64 * 20
    out.append(f"| fused multiply-adds on registers | {1e-9 / statistics.median(limits['fma']):.0f} GFLOP/s |")
    names = {"xsmm": "libxsmm, 64 × 64 by 64 × 128, keys packed", "blas": "OpenBLAS, the same"}
    for name, label in names.items():
        if name not in limits:
            continue
        out.append(f"| {label} | {tile / statistics.median(limits[name]) / 1e9:.0f} GFLOP/s |")
    for threads, found in result.items():
        out.append(f"| reading memory, {threads} thread{'s' if threads != '1' else ''} | "
                   f"{READ_BYTES / statistics.median(found['decode']['read']) / 1e9:.1f} GB/s |")
    return out


def picture(result):
    """Bars of the time of each library, ours = 1, in one SVG"""
    found = result["1"]["attention"]
    rows = [row for row in found if not (row.split()[3] == "1" and row.split()[1] == "256")]
    names = ["ours"] + [name for name in next(iter(found.values())) if name not in ("ours", "fma")]
    colours = ["#2b6cb0", "#a0aec0", "#cbd5e0", "#e2b97f", "#d69e9e"]
    bar, gap, left = 13, 16, 225
    scale = 480 / max(ratio(found[row], name, "ours") for row in rows for name in names)
    height = 60 + len(rows) * (len(names) * bar + gap)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" '
           'font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           '<text x="10" y="18" font-size="14">Time of one attention, ours = 1 (float32, one thread; less is better)'
           '</text>']
    x = 10
    for i, name in enumerate(names):
        out.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{colours[i]}"/>'
                   f'<text x="{x + 14}" y="38" font-size="10">{name}</text>')
        x += 40 + 7 * len(name)
    y = 56
    for row in rows:
        heads, n, d, causal = row.split()
        out.append(f'<text x="10" y="{y + 14}">{heads} heads, n {n}, d {d}{", causal" if causal == "1" else ""}</text>')
        for i, name in enumerate(names):
            times = 1.0 if name == "ours" else ratio(found[row], name, "ours")
            out.append(f'<rect x="{left}" y="{y}" width="{times * scale:.0f}" height="{bar - 2}" '
                       f'fill="{colours[i]}"/><text x="{left + times * scale + 4:.0f}" y="{y + 10}" '
                       f'font-size="10">{times:.2f}</text>')
            y += bar
        y += gap
    return "\n".join(out + ["</svg>", ""])


def report(result, rounds):
    versions = ", ".join(f"{name} {version}" for name, version in result["1"]["versions"].items())
    out = textwrap.wrap(f"Measured {datetime.date.today().isoformat()} on {machine()}. {versions}. Medians of {rounds} "
                        "alternating rounds; a ratio above 1 means that the other takes longer.", 100) + [""]
    out += limits_table(result) + [""] + attention_table(result) + [""]
    out += ["| goal | reached | wanted | met |", "| --- | ---: | ---: | --- |"]
    out += [f"| {what} | {reached} | {wanted} | {met} |" for what, reached, wanted, met in goals(result)]
    return out


def write(lines, svg):
    page = ROOT / "docs" / "performance.md"
    begin, end = "<!-- bench: begin -->", "<!-- bench: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1])
    (ROOT / "docs" / "performance.svg").write_text(svg)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small shapes only; prints, writes nothing")
    parser.add_argument("--threads", type=int, help="(used by itself: measures in this process)")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if options.threads:
        print(json.dumps(measure_threads(options.program, options.threads, cpus, options.rounds, options.quick)))
        return
    result = {}
    for threads in (1, 2):
        if threads > len(cpus):
            print(f"this machine has {len(cpus)} CPU: {threads} threads are not measured")
            continue
        own = cpus[-threads:]  # the first CPU serves most interrupts
        command = ["taskset", "-c", ",".join(map(str, own)), sys.executable, __file__, options.program,
                   "--rounds", str(options.rounds), "--threads", str(threads)] + ["--quick"] * options.quick
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads))
        output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        *remarks, last = output.strip().splitlines()
        print("\n".join(remarks))
        result[str(threads)] = json.loads(last)
    lines = report(result, options.rounds)
    print("\n".join(lines))
    if not options.quick:
        write(lines, picture(result))


if __name__ == "__main__":
    main()
