"""Our daemon beside FastAPI servers, all on this machine, over loopback, in one run. Prints a section of docs/performance.md.

    serve.py DAEMON LOAD [ROUNDS]

Each round sends every contender the same problem for a while, one contender after the other; medians over the rounds
are compared. All servers run during the whole of it, and those that are not asked sleep.
"""
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
PEERS = [(kind, tuned) for kind in ("numpy", "onnx") for tuned in (0, 1)]
NAMES = {"numpy": "FastAPI + NumPy", "onnx": "FastAPI + ONNX Runtime"}


# ---- requests: the bytes as they go over the wire -------------------------------------------------------------------

def http(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def json_request(arrays):
    body = json.dumps({name: array.astype(float).round(8).tolist() for name, array in arrays.items()})
    return http("/attention", body.encode(), "Content-Type: application/json")


def safetensors_request(arrays):
    head, offset = {}, 0
    for name, array in arrays.items():
        head[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values())
    return http("/attention", body, "Content-Type: application/vnd.safetensors", "Accept: application/vnd.safetensors")


def oip_request(arrays):
    inputs = [{"name": name, "shape": list(array.shape), "datatype": "FP32",
               "parameters": {"binary_data_size": array.nbytes}} for name, array in arrays.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}, separators=(",", ":")).encode()
    body = head + b"".join(array.tobytes() for array in arrays.values())
    return http("/v2/models/attention/infer", body, f"Inference-Header-Content-Length: {len(head)}")


FORMATS = {"JSON": json_request, "safetensors": safetensors_request, "OIP": oip_request}


def worked_example():
    rows = {"q": [[2, 0, 1], [0, 2, 1]], "k": [[1, 1, 0], [0, 1, 1]], "v": [[1, 0, 1], [0, 1, 0]]}
    return {name: np.array([[value]], np.float32) for name, value in rows.items()}


def random_problem(n, heads):
    random = np.random.default_rng(n + heads)
    return {name: random.standard_normal((1, heads, n, 64)).astype(np.float32) for name in "qkv"}


# ---- servers --------------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_port(port, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit("a server did not start")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("a server does not listen")


def start(command, port, **environment):
    process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=HERE, stdout=subprocess.DEVNULL)
    await_port(port, process)
    return process


def start_all(daemon):
    """{contender: (port, name of its format)} and the processes"""
    port = free_port()
    processes = [start([daemon, "--port", str(port), "--log-level", "error"], port)]
    contenders = {("attentiond", name): (port, name) for name in FORMATS}
    for kind, tuned in PEERS:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "peer:app", "--port", str(port), "--log-level", "warning"]
        processes.append(start(command, port, PEER=kind, TUNED=str(tuned)))
        contenders[NAMES[kind], "orjson" if tuned else "defaults"] = (port, "JSON")
    return contenders, processes


# ---- measuring ------------------------------------------------------------------------------------------------------

def load(program, port, connections, seconds, path):
    """One run of the load generator; None where the server has no such format."""
    result = subprocess.run([program, str(port), str(connections), str(seconds), path], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode:
        print(result.stderr.strip()[:300], file=sys.stderr)
        return None
    return json.loads(result.stdout)


def measure(program, contenders, folder, arrays, connections, seconds, rounds):
    """{contender: the medians of what the load generator says}"""
    paths = {}
    for name, make in FORMATS.items():
        paths[name] = os.path.join(folder, name)
        pathlib.Path(paths[name]).write_bytes(make(arrays))
    runs = {}
    for contender, (port, name) in contenders.items():  # what is set up once; who does not answer is left out
        if load(program, port, connections, 0, paths[name]):
            runs[contender] = []
    for _ in range(rounds):
        for contender in runs:
            port, name = contenders[contender]
            run = load(program, port, connections, seconds, paths[name])
            if run:
                run["rate"] = run["requests"] / run["seconds"]
                runs[contender].append(run)
    return {contender: {key: statistics.median(run[key] for run in all_runs) for key in all_runs[0]}
            for contender, all_runs in runs.items() if all_runs}


# ---- the report -----------------------------------------------------------------------------------------------------

def table(title, results):
    print(f"\n{title}:\n\n| server | format | requests/s | p50 ms | p99 ms | JSON of ours is | compute |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    ours = results["attentiond", "JSON"]["rate"]
    for (server, way), r in results.items():
        ratio = f"{ours / r['rate']:.1f} ×" if server != "attentiond" else ""
        share = f"{100 * r['compute'] / r['mean']:.0f} %" if server == "attentiond" else ""
        print(f"| {server} | {way} | {r['rate']:.4g} | {1e3 * r['p50']:.4g} | {1e3 * r['p99']:.4g} | {ratio} | {share} |")


def best(results, way):
    rates = [r["rate"] for (server, name), r in results.items() if server != "attentiond" and name == way]
    return max(rates) if rates else float("nan")


def goal(what, got, wanted, unit="×"):
    missed = "" if got >= wanted else " (missed)"
    print(f"| {what} | {got:.1f} {unit} | {wanted:g} {unit}{missed} |")


def goals(worked, large):
    print("\n| aim | reached | wanted |\n| --- | ---: | ---: |")
    rate = worked["attentiond", "JSON"]["rate"]
    goal("worked example, JSON, over the best", rate / max(best(worked, "defaults"), best(worked, "orjson")), 8)
    for heads, results in large.items():
        rate = results["attentiond", "JSON"]["rate"]
        problem = f"n = 2048, {heads} head{'s' * (heads > 1)}"
        goal(f"{problem}, JSON over the best of the defaults", rate / best(results, "defaults"), 10)
        goal(f"{problem}, JSON over the best tuned", rate / best(results, "orjson"), 2.5)
        for way in ("safetensors", "OIP"):
            if ("attentiond", way) in results:
                r = results["attentiond", way]
                goal(f"{problem}, {way} over the best tuned", r["rate"] / best(results, "orjson"), 5)
                if heads == 8:
                    goal(f"{problem}, {way}, share of compute in the wall time", 100 * r["compute"] / r["mean"], 80, "%")


def main(daemon, program, rounds=3):
    contenders, processes = start_all(os.path.abspath(daemon))
    try:
        with tempfile.TemporaryDirectory() as folder:
            def run(arrays, connections, seconds):
                return measure(program, contenders, folder, arrays, connections, seconds, int(rounds))
            print(f"Over loopback, medians of {rounds} rounds; `compute` is the share of the time of a request that "
                  f"Server-Timing\nsays was spent computing. FastAPI runs on uvicorn with uvloop and httptools.")
            worked, large = run(worked_example(), 4, 2), {}
            table("The worked example, 4 connections", worked)
            for n in (512, 2048):
                for heads in (1, 8):
                    results = run(random_problem(n, heads), 1, 2)
                    table(f"n = {n}, d = 64, {heads} head{'s' * (heads > 1)}, 1 connection", results)
                    if n == 2048:
                        large[heads] = results
            goals(worked, large)
    finally:
        for process in processes:
            process.terminate()


main(*sys.argv[1:])
