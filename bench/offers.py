"""The time of every offer for a site beside the cost that chose one: what the costs of kernels are judged by.

    python bench/offers.py [--threads 1] [--only "grouped|1-D"] [--form between,alone] [--rounds 6]
    python bench/offers.py --judge

Sites are those of bench/convolutions.py and random ones. The costs are fitted to the former and to "random 0" to "random 199"; "random 200" to "random 259" only judge them. A model is compiled once as it is, and once for each implementation with INGOT_OFFER=NAME, and all builds are interleaved; a figure is the fastest of
all rounds. `alone` counts all steps, so the copies too that an offer wishes for; `between`, where compile chooses the layouts, counts the step of the site. Lines of
bench/results/offers-<machine>.jsonl: the site, the chosen implementation and its nanoseconds where the runtime chooses among the step's alternatives, and of each offer its cost and its nanoseconds.

`--judge` measures nothing: it compiles the sites of a file again, and says what the choices by today's costs lose to the fastest offers. `tests/plans/test_offers.py` holds the result.
"""

from __future__ import annotations

import functools
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ingot
from convolutions import PROBLEMS, layers
from cpu import machine_name
from kernels_cpu import problems_parser

from ingot.engine import _library

RESULTS = Path(__file__).resolve().parent / "results"


def random_problem(seed):
    """A convolution drawn at random: mostly small enough for a millisecond."""
    draw = random.Random(seed)
    axes = draw.choice((1, 2, 2, 2, 3))
    groups = draw.choice((1, 1, 1, 2, 4, 16))
    c, o = (groups * draw.choice((1, 2, 3, 4, 8, 16, 24, 40, 64)) for _ in range(2))
    kernel = draw.choice((1, 2, 3, 3, 3, 5, 7)) if axes < 3 else draw.choice((1, 2, 3))
    place = {1: (100, 4000), 2: (7, 80), 3: (5, 20)}[axes]
    size = tuple(draw.randint(*place) for _ in range(axes))
    more = {"groups": groups, "stride": draw.choice((1, 1, 2, 4)), "padding": draw.choice((0, kernel // 2)), "dilation": draw.choice((1, 1, 1, 2))}
    size = tuple(max(s, more["dilation"] * (kernel - 1) + 1) for s in size)
    return c, o, kernel, size, {**more, "batch": draw.choice((1, 1, 1, 4))}


RANDOM = {f"random {seed}": random_problem(seed) for seed in range(260)}
ALL = {**PROBLEMS, **RANDOM}
FITTED = 200  # of the random sites


def is_held_out(line):
    seed = re.match(r"random (\d+)", line["site"])
    return seed is not None and int(seed[1]) >= FITTED


def compiled_with(name, model, x):
    """The module compiled with this implementation wherever it makes an offer; None: as it is."""
    if name is not None:
        os.environ["INGOT_OFFER"] = name
    try:
        return ingot.compile(model, inputs=[x])
    finally:
        os.environ.pop("INGOT_OFFER", None)


def sites_of(compiled):
    """For each step of the program that a kernel of convolutions could take: its number, the chosen implementation, and the cost of each offer."""
    with tempfile.NamedTemporaryFile(suffix=".ingot") as file:
        ingot.save(compiled, file.name)
        tool = Path(os.environ.get("INGOT_LIBRARY_DIR") or RESULTS.parents[1] / "build/release") / "ingot"
        text = subprocess.run([tool, "inspect", "--offers", file.name], capture_output=True, text=True, check=True).stdout
    found = []
    for number, step in enumerate(re.split(r"\n(?=\S)", text.split("forward for cpu: steps and offers\n")[1])):
        offers = re.findall(r"^    ([* ]) (\w+): cost ([-\d.e+inf]+)", step, re.M)
        if any(name.startswith("conv_") for _, name, _ in offers):
            found.append({"step": number, "chosen": next((name for mark, name, _ in offers if mark == "*"), None), "costs": {name: float(cost) for _, name, cost in offers}})
    return found


def measure_steps(compiled, x):
    """A function that returns the nanoseconds of each step, and its M, N and K: of the fastest of `n` calls."""
    session = compiled.engine.session()
    arrays, made = [x.numpy()], session.run(x.numpy())

    def steps():
        return json.loads(_library.text_of(_library.lib().ingot_session_profile, session.pointer, 1))["steps"]

    def measure(n):
        calls = []
        for _ in range(n):
            session.run(*arrays, out=made)
            calls.append(steps())
        return [(min(call[i]["nanoseconds"] for call in calls), tuple(calls[0][i]["sizes"][:3])) for i in range(len(calls[0]))]

    steps()
    return measure


def time_of(steps, of, form):
    """Nanoseconds of a build: all steps, or those with this M, N and K."""
    return sum(ns for ns, _ in steps) if form == "alone" else sum(ns for ns, sizes in steps if sizes == of)


def built(problem, form):
    """The model as it is, its input and its site; None: it has none."""
    torch.manual_seed(0)
    model, x, _ = layers(problem, form)
    usual = compiled_with(None, model, x)
    sites = sites_of(usual)
    if not sites:
        return None
    # The layer's own site: of the largest work.
    steps = measure_steps(usual, x)(1)
    site = max(sites, key=lambda s: math.prod(steps[s["step"]][1]))
    return model, x, site, steps[site["step"]][1]


def measure(problems, forms, rounds):
    for name, problem in problems:
        for form in forms:
            found = built(problem, form)
            if found is None:
                continue
            model, x, site, sizes = found
            calls = {n: measure_steps(compiled_with(n, model, x), x) for n in site["costs"]}
            calls["as chosen"] = measure_steps(compiled_with(None, model, x), x)
            best = {}
            for _ in range(rounds):
                for n, call in calls.items():
                    best[n] = min(best.get(n, math.inf), time_of(call(5), sizes, form))
            if not all(best.values()):
                continue  # a build has no step of these sizes
            ran = best.pop("as chosen")
            yield {"site": f"{name}, {form}", "chosen": site["chosen"], "ran": ran, "costs": site["costs"], "ns": best}


@functools.lru_cache(maxsize=None)
def chosen_today(site):
    """The implementation that compile chooses; None: the site has none of these kernels."""
    name, form = site.rsplit(", ", 1)
    found = built(ALL[name], form)
    return found and found[2]["chosen"]


def judge(lines):
    """For each line the share that today's choice loses to the fastest offer, the most first; then the choice, the fastest and the site."""
    lost = []
    for line in lines:
        chosen = chosen_today(line["site"])
        if len(line["ns"]) > 1 and chosen in line["ns"]:
            fastest = min(line["ns"], key=line["ns"].get)
            lost.append((line["ns"][chosen] / line["ns"][fastest] - 1, chosen, fastest, line["site"]))
    return sorted(lost, reverse=True)


def summary(lost):
    shares = [share for share, *_ in lost]
    return sum(share <= 0.1 for share in shares) / len(shares), sum(shares) / len(shares)


def main():
    parser = problems_parser(__doc__.split("\n")[0])
    parser.add_argument("--judge", action="store_true", help="compile and compare with the times of the file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.environ["INGOT_CACHE"] = "off"
    path = RESULTS / f"offers-{machine_name()}.jsonl"
    if arguments.judge:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for kind, held_out in (("fitted", False), ("held-out", True)):
            lost = judge([line for line in lines if is_held_out(line) == held_out])
            near, mean = summary(lost)
            for share, chosen_name, fastest, site in lost[:10]:
                print(f"{share:7.1%} lost: {chosen_name} instead of {fastest}: {site}")
            print(f"{len(lost)} {kind} sites: within 10 % of the fastest offer {near:.1%}, mean loss {mean:.2%}")
        return
    wanted = [(name, problem) for name, problem in ALL.items() if re.search(arguments.only, name)]
    for line in measure(wanted, arguments.form.split(","), arguments.rounds):
        fastest = min(line["ns"], key=line["ns"].get)
        text = ", ".join(f"{n} {t / 1e3:.1f} ({line['costs'][n]:.0f})" for n, t in line["ns"].items())
        print(f"{line['ran'] / line['ns'][fastest]:6.2f} {line['chosen']:14} {line['site']}: {text}", flush=True)
        if not arguments.dry:
            with open(path, "a") as file:
                file.write(json.dumps({**line, "threads": arguments.threads}) + "\n")


if __name__ == "__main__":
    main()
