"""`python tests/differential --seconds 3600 [--seed N]` runs random programs by all ways for this time. A failure is reduced and printed as a script."""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.path.append(str(HERE.parents[1] / "python"))  # after a wheel that is tested

import quiet  # noqa: E402  (first)
import torch  # noqa: E402
import ways  # noqa: E402
import worker  # noqa: E402
from campaign import Tally  # noqa: E402
from grow import Kinds  # noqa: E402

SHARES = {"ahead": 5, "torch.compile": 3, "file": 1, "command line": 1}  # of the chunks
CHUNK = 50


def main():
    arguments = argparse.ArgumentParser(prog="tests/differential", description=__doc__)
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--seed", type=int, default=None, help="of the first program; from the clock when not given")
    arguments.add_argument("--programs", type=int, default=None, help="at most so many, instead of --seconds")
    arguments.add_argument("--way", choices=[*ways.ALL], default=None, help="this one alone")
    arguments.add_argument("--only", default="", help="beginnings of operators' names, with commas: each program calls one of them at least")
    arguments.add_argument("--kinds", default="", help="such as dynamic=1,write=0.5: see Kinds in grow.py")
    arguments.add_argument("--chunk", type=int, default=CHUNK, help="programs for one process")
    arguments.add_argument("--stop", action="store_true", help="end at the first failure")
    arguments.add_argument("--reduce", type=float, default=60, help="seconds to reduce a failure in; 0: do not")
    arguments.add_argument("--isa", default=None, help="INGOT_ISA of the processes")
    arguments.add_argument("--scripts", default=None, help="a folder for the scripts; printed otherwise")
    a = arguments.parse_args()
    seed = int(time.time()) * 1000 % 10**9 if a.seed is None else a.seed
    numbers = {k: float(v) for k, v in (pair.split("=") for pair in a.kinds.split(",") if pair)}
    kinds = Kinds(only=tuple(n for n in a.only.split(",") if n), **numbers)
    print(f"SEED={seed}: {kinds}", flush=True)
    order = [a.way] if a.way else [w for w, n in SHARES.items() for _ in range(n)]
    end, whole, at, number, shown = time.monotonic() + a.seconds, Tally(), seed, 0, set()
    torch.set_num_threads(1)
    while time.monotonic() < end and (a.programs is None or at - seed < a.programs):
        way = order[number % len(order)]
        count = a.chunk if a.programs is None else min(a.chunk, a.programs - (at - seed))
        try:
            tally = worker.run(range(at, at + count), kinds, way, {"INGOT_ISA": a.isa} if a.isa else None)
        except RuntimeError as ended:
            print(f"FAILED: {ended}", flush=True)
            tally = Tally()
            whole.crashes += 1
        whole.add(tally)
        for failure in tally.failures:
            print(f"FAILED by {way}, seed {failure.seed}, after {failure.seed - seed + 1} programs: {failure.kind}", flush=True)
            if a.reduce and (failure.kind, way) not in shown:
                shown.add((failure.kind, way))
                text = str(failure.reduced(ways.ALL[way], a.reduce))
                if a.scripts:
                    Path(a.scripts).mkdir(parents=True, exist_ok=True)
                    Path(a.scripts, f"{way.replace(' ', '_')}_{failure.seed}.py").write_text("# " + text.partition("\n\n")[0].replace("\n", "\n# ") + "\n" + text.partition("\n\n")[2])
                else:
                    print(text, flush=True)
        at, number = at + count, number + 1
        if a.stop and (whole.failures or whole.crashes):
            break
    print(whole, flush=True)
    sys.exit(1 if whole.failures or whole.crashes else 0)


if __name__ == "__main__":
    with quiet.hushed():
        main()
