"""Times of a call while other programs want the cores: `python bench/contention.py`.

Each row runs in a process of its own for each peer (those of cpu.py), on as many cores as threads. Neighbours are endless loops on the same cores. What a call may take is
its quiet time over the share of the cores that is left: the rate of plain loops, one a thread, under the same load over their quiet rate, measured alternately with the calls.
`over_share` is the mean time of a call over that, 1.0 if waiting costs nothing. Lines are appended to bench/results/contention-<machine>.jsonl with the command.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from cpu import BEFORE, environment_of, machine_name  # noqa: E402

NEIGHBOUR = "while True: pass"
# Counts for as many seconds as each line says, and prints the count.
LOOP = """import sys, time
for line in sys.stdin:
    end, count = time.perf_counter() + float(line), 0
    while time.perf_counter() < end:
        for _ in range(1000): pass
        count += 1
    print(count, flush=True)
"""


class Loads:
    """Neighbours: stopped until they are wanted."""

    def __init__(self, max_count: int, cores: set[int], nice: int):
        self.processes = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR], preexec_fn=lambda: on_cores(cores, nice)) for _ in range(max_count)]
        self.set(0)

    def set(self, count: int):
        for index, process in enumerate(self.processes):
            os.kill(process.pid, signal.SIGCONT if index < count else signal.SIGSTOP)
        time.sleep(0.2)

    def end(self):
        for process in self.processes:
            process.kill()


def on_cores(cores: set[int], nice: int):
    os.sched_setaffinity(0, cores)
    os.nice(nice)


class Peer:
    """A model in a process of its own, by cpu.py."""

    def __init__(self, row: str, peer: str, threads: int, cores: set[int], nice: int, before: str | None):
        command = [sys.executable, str(HERE / "cpu.py"), "--threads", str(threads), "--worker", row, peer]
        environment = environment_of(before if peer == BEFORE else None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, preexec_fn=lambda: on_cores(cores, nice))

    def start(self) -> str | None:
        """Waits for the build; why it failed, or None."""
        return json.loads(self.process.stdout.readline() or '{"failed": "the process ended"}').get("failed")

    def calls(self, seconds: float) -> list[float]:
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["wall"]


class Share:
    """Plain loops, one a thread."""

    def __init__(self, threads: int, cores: set[int], nice: int):
        self.loops = [subprocess.Popen([sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: on_cores(cores, nice)) for _ in range(threads)]

    def count(self, seconds: float) -> int:
        for loop in self.loops:
            loop.stdin.write(f"{seconds}\n")
            loop.stdin.flush()
        return sum(int(loop.stdout.readline()) for loop in self.loops)


def run(row: str, arguments) -> list[dict]:
    cores = set(sorted(os.sched_getaffinity(0))[: arguments.threads])
    loads, share = Loads(max(arguments.loads), cores, arguments.nice_of_neighbours), Share(arguments.threads, cores, arguments.nice)
    names = arguments.peers.split(",") + [BEFORE] * (arguments.before is not None)
    peers = {name: Peer(row, name, arguments.threads, cores, arguments.nice, arguments.before) for name in names}
    lines = []
    try:
        for name in names:
            if failed := peers[name].start():
                lines.append({"row": row, "peer": name, "failed": failed})
                del peers[name]
        walls = {(name, load): [] for name in peers for load in arguments.loads}
        counts = {load: 0 for load in arguments.loads}
        part = arguments.seconds / arguments.rounds
        for turn in range(arguments.rounds):
            for load in arguments.loads:
                loads.set(load)
                counts[load] += share.count(part / 2)
                for name in list(peers)[turn % len(peers) :] + list(peers)[: turn % len(peers)]:
                    walls[name, load] += peers[name].calls(part)
                counts[load] += share.count(part / 2)
        for (name, load), wall in walls.items():
            mean, quiet = sum(wall) / len(wall), sum(walls[name, 0]) / len(walls[name, 0])
            left = counts[load] / counts[0]
            lines.append({"row": row, "peer": name, "neighbours": load, "ms": round(mean * 1e3, 3), "worst_ms": round(max(wall) * 1e3, 1), "share": round(left, 3), "over_share": round(mean * left / quiet, 3)})
    finally:
        loads.end()
        for process in [p.process for p in peers.values()] + share.loops:
            process.kill()
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="minilm-b1-s16,resnet50-b1,llama-bf16-b1-s1")
    parser.add_argument("--peers", default="ingot,eager,inductor,onnxruntime,openvino")
    parser.add_argument("--before", metavar="FOLDER", help="also compare with the build of ingot whose wheel is unpacked there")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--loads", type=lambda text: [int(n) for n in text.split(",")], default=[0, 1, 2, 4], help="numbers of neighbours; 0 must be among them")
    parser.add_argument("--nice", type=int, default=0, help="of the model and the loops that measure the share")
    parser.add_argument("--nice-of-neighbours", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each peer under each load")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    if 0 not in arguments.loads:
        parser.error("--loads needs 0, the quiet time")
    command = "python bench/contention.py " + " ".join(sys.argv[1:])
    log = HERE / "results" / f"contention-{machine_name()}.jsonl"
    for row in arguments.rows.split(","):
        for line in run(row, arguments):
            line.update(threads=arguments.threads, nice=arguments.nice, nice_of_neighbours=arguments.nice_of_neighbours, date=time.strftime("%Y-%m-%d"), command=command.strip())
            with open(log, "a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps({k: v for k, v in line.items() if k not in ("command", "date")}), flush=True)


if __name__ == "__main__":
    main()
