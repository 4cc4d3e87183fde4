"""End-to-end times on the CPU compared with every peer, in one run: `make bench`.

Each peer of a model has its own process and runs bursts alternately with the others (order rotated), so that other load on the machine affects all alike. Reported for each: median and fastest
wall time, CPU time, error against float64, compile seconds, resident memory, and the limit: operations over the machine's measured multiply-add peak, or weight bytes over its measured read
bandwidth, whichever is longer. Lines are appended to bench/results/<machine>.jsonl with the command.

`--before FOLDER` adds the peer "before": another build of ingot, from a wheel unpacked in that folder. Its line has the ratio of every round, before over now.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
PEERS = ["ingot", "eager", "inductor", "inductor-freezing", "onnxruntime", "openvino"]
BEFORE = "before"


# ---- one peer in its own process


def build(row, peer, threads):
    """Returns (call, output of a call as a numpy array)."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module, inputs = row.make(), row.inputs()
    if peer == "eager":
        return lambda: module(*inputs)
    if peer in ("ingot", BEFORE):
        import ingot

        specs = [ingot.Input.from_tensor(x, name=n) for n, x in zip(row.make.names, inputs)]
        compiled = ingot.compile(module, inputs=specs)
        return lambda: compiled(*inputs)
    if peer.startswith("inductor"):
        import torch._inductor.config

        torch._inductor.config.freezing = peer.endswith("freezing")
        compiled = torch.compile(module, dynamic=False)
        return lambda: compiled(*inputs)
    if peer == "onnxruntime":
        import tempfile

        import onnxruntime

        path = os.path.join(tempfile.mkdtemp(), "model.onnx")
        torch.onnx.export(module, inputs, path, dynamo=True, verbose=False, external_data=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
        return lambda: session.run(None, feed)
    if peer == "openvino":
        import openvino

        converted = openvino.convert_model(module, example_input=inputs, input=[list(i.shape) for i in inputs])
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        request = openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
        feed = [np.ascontiguousarray(i.numpy()) for i in inputs]
        return lambda: request.infer(feed, share_inputs=True, share_outputs=True)
    raise SystemExit(f"unknown peer {peer}")


def first_array(result):
    import numpy as np
    import torch

    while not isinstance(result, (torch.Tensor, np.ndarray)):
        result = result[0]
    return np.asarray(result.double() if isinstance(result, torch.Tensor) else result, dtype=np.float64)


def worker(row, peer, threads):
    import numpy as np
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        start = time.perf_counter()
        call = build(row, peer, threads)
        result = first_array(call())
        call()
        seconds = time.perf_counter() - start
        exact = first_array(row.make().double()(*[x.double() if x.is_floating_point() else x for x in row.inputs()]))
        error = float(np.abs(result.reshape(exact.shape) - exact).max())
        head = {"compile_s": round(seconds, 2), "error": error}
    except Exception as problem:  # the parent prints it and continues with the other peers
        print(json.dumps({"failed": f"{type(problem).__name__}: {problem}"[:300]}), file=answers, flush=True)
        return
    del torch
    print(json.dumps(head), file=answers, flush=True)
    for line in sys.stdin:
        seconds = float(line)
        call()
        wall, used = [], []
        start = time.perf_counter()
        while not wall or time.perf_counter() - start < seconds:
            c, t = time.process_time(), time.perf_counter()
            call()
            wall.append(time.perf_counter() - t)
            used.append(time.process_time() - c)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"wall": wall, "cpu": used, "memory_mb": round(memory)}), file=answers, flush=True)


# ---- all peers of a row, alternately


def limits():
    """Measured multiply-add peaks (FLOP/s) of float32 and bfloat16 and read bandwidth (bytes/s), from the ingot command."""
    out = subprocess.run([os.environ.get("INGOT_CLI", "ingot"), "doctor", "--json", "--measure"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["limits"]


def median(values):
    return sorted(values)[len(values) // 2]


def environment_of(before):
    """The environment of a process whose ingot is the wheel unpacked in the folder `before`; with None, this process's own."""
    if before is None:
        return dict(os.environ)
    library = Path(before).resolve() / "ingot" / "lib"
    if not library.is_dir():
        raise SystemExit(f"--before {before}: there is no ingot/lib in it; unpack a wheel of ingot there")
    return {**os.environ, "PYTHONPATH": str(library.parents[1]), "INGOT_LIBRARY_DIR": str(library), "INGOT_CLI": str(library / "ingot")}


def ratios(before, now):
    """The ratio of medians of each round, before over now (above 1: this build is faster), and the median ratio."""
    rounds = [round(median(b) / median(n), 4) for b, n in zip(before, now)]
    return {"before_over_now": median(rounds), "rounds": rounds}


def run_row(row, peers, threads, rounds, burst, before):
    alive, results, bursts = {}, {}, {}
    for peer in peers:  # one after the other, so that compiling does not overlap
        command = [sys.executable, __file__, "--worker", row.name, peer, "--threads", str(threads)]
        # Peers keep their own defaults for waiting; only the number of threads is fixed.
        environment = {**environment_of(before if peer == BEFORE else None), "OMP_NUM_THREADS": str(threads)}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        head = json.loads(process.stdout.readline() or '{"failed": "the process died"}')
        results[peer] = {"row": row.name, "peer": peer, "threads": threads, **head}
        if "failed" not in head:
            alive[peer] = (process, [], [])
    for k in range(rounds):
        order = list(alive)
        for peer in order[k % len(order) :] + order[: k % len(order)]:
            process, wall, used = alive[peer]
            process.stdin.write(f"{burst}\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            wall += answer["wall"]
            bursts.setdefault(peer, []).append(answer["wall"])
            used += answer["cpu"]
            results[peer]["memory_mb"] = answer["memory_mb"]
    for peer, (process, wall, used) in alive.items():
        process.stdin.close()
        process.wait()
        results[peer].update(
            ms=round(median(wall) * 1e3, 3), ms_min=round(min(wall) * 1e3, 3), cpu_ms=round(median(used) * 1e3, 3), calls=len(wall)
        )
    if BEFORE in bursts and "ingot" in bursts:
        results[BEFORE].update(ratios(bursts[BEFORE], bursts["ingot"]))
    return results


def main():
    import images
    from models import BENCH, Row, weight_bytes

    rows = {row.name: row for row in BENCH}
    of_images = {name: Row(name, images.OnCpu(make), 1, 0) for name, make in images.CPU.items()}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(rows), help='names with commas; "images" is all rows of images.py')
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--before", metavar="FOLDER", help="also compare with the build of ingot whose wheel is unpacked there")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--burst", type=float, default=1.0, help="seconds of each burst")
    parser.add_argument("--worker", nargs=2, metavar=("ROW", "PEER"))
    parser.add_argument("--json", action="store_true", help="print the lines as JSON only")
    arguments = parser.parse_args()
    if arguments.rows == "images":
        arguments.rows = ",".join(of_images)
    rows.update(of_images)
    if arguments.worker:
        return worker(rows[arguments.worker[0]], arguments.worker[1], arguments.threads)
    try:
        limit = limits()
    except (OSError, subprocess.CalledProcessError, KeyError, ValueError):
        limit = None
    peers = arguments.peers.split(",") + [BEFORE] * (arguments.before is not None)
    machine = machine_name()
    log = HERE / "results" / f"{machine}.jsonl"
    log.parent.mkdir(exist_ok=True)
    command = "python bench/cpu.py " + " ".join(sys.argv[1:])
    for name in arguments.rows.split(","):
        row = rows[name]
        module = row.make()
        flops, size = row.flops(module), weight_bytes(module)
        peak = limit and limit["bf16_flops" if getattr(row.make, "dtype", "float32") == "bfloat16" else "flops"]
        del module
        results = run_row(row, peers, arguments.threads, arguments.rounds, arguments.burst, arguments.before)
        bound = max(flops / peak, size / limit["bytes_per_second"]) * 1e3 if limit else None
        ours = results.get("ingot", {}).get("ms")
        for result in results.values():
            result.update(time=time.strftime("%Y-%m-%d"), limit_ms=bound and round(bound, 3), command=command.strip())
            with open(log, "a") as file:
                file.write(json.dumps(result) + "\n")
            if arguments.json:
                print(json.dumps(result), flush=True)
        if not arguments.json:
            print(f"{name}: limit {bound and round(bound, 2)} ms")
            for peer, r in results.items():
                if "failed" in r:
                    print(f"  {peer:18s} failed: {r['failed']}")
                else:
                    ratio = f"{r['ms'] / ours:5.2f}x" if ours else ""
                    print(f"  {peer:18s} {r['ms']:9.3f} ms {ratio:7s} min {r['ms_min']:9.3f}  cpu {r['cpu_ms']:9.3f}  error {r['error']:.1e}  built {r['compile_s']:6.2f} s  {r['memory_mb']} MB")
            if "rounds" in results.get(BEFORE, {}):
                print(f"  before over now {results[BEFORE]['before_over_now']:.3f}, rounds {results[BEFORE]['rounds']}")
            sys.stdout.flush()


def machine_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            flags = open("/proc/cpuinfo").read()
            level = os.environ.get("INGOT_ISA") or ("avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "portable")
            return "-".join(line.split(":")[1].split()).lower().replace("(r)", "").replace("@", "at") + f"-{os.cpu_count()}cores-{level}"
    return platform.machine()


if __name__ == "__main__":
    main()
