"""The time of every offer for a site, and the cost that chose one: what the costs of kernels are judged by.

    python bench/offers.py [--threads 1] [--only "grouped|1-D"] [--form between,alone] [--rounds 12] [--jobs 2]
    INGOT_ISA=avx2 python bench/offers.py
    python bench/offers.py --types bfloat16 --form alone [--seconds 220]
    python bench/offers.py --device cuda --seconds 280
    python bench/offers.py --judge [--device cuda]

Sites are those of bench/convolutions.py, random ones, matrix products, and batches of small ones. The costs are fitted to "random 0" to "random 199", "random product 0" to "random product 39" and the named ones; the other random ones only judge them. A model is compiled once as it is, and once for each implementation with INGOT_OFFER=NAME, in `--jobs` processes, and all builds are interleaved; a figure is the fastest of
all rounds. `alone` counts all steps, so the copies too that an offer wishes for; `between`, where compile chooses the layouts, counts the step of the site.

On a GPU a figure is the time of all steps, in a CUDA graph of so many calls that its beginning does not count; weights are in the caches where they fit. The forms are `alone` and
`channels_last`, which is alone with an image in that order.

Lines of bench/results/offers-<machine>.jsonl, whose name ends in the instruction set (of float32, AVX-512 at most): the site, the chosen implementation and its nanoseconds where the runtime chooses among the step's alternatives, and of each offer its cost and its nanoseconds.
A site that the file has already is not measured again, so a run that was stopped goes on; `--seconds` ends it in time.

`--judge` measures nothing: it compiles the sites of a file again, and says what the choices by today's costs lose to the fastest offers. `tests/plans/test_offers.py` holds the result.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ingot
from convolutions import PROBLEMS, layers, recorded
from cpu import machine_name
from kernels_cpu import interleave, problems_parser

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
# Rows, results and terms of matrix products: batches of 1 to 4096 by the layers of language, vision and recommendation models.
PRODUCTS = {f"product {m} x {n} x {k}": (m, n, k) for m in (1, 8, 64, 512, 4096) for n, k in ((16, 64), (64, 16), (64, 64), (128, 48), (320, 320), (768, 768), (3072, 768), (768, 3072), (1000, 2048), (4096, 4096))}


def random_product(seed):
    draw = random.Random(1000 + seed)
    return tuple(round(2 ** draw.uniform(0, most)) for most in (11, 12, 12))


PRODUCTS |= {f"random product {seed}": random_product(seed) for seed in range(60)}
# Batches of products of small matrices: how many, rows, results and terms.
BATCHES = {f"batch of {count}: {m} x {n} x {k}": (count, m, n, k) for count in (16, 512) for m, n, k in ((2, 2, 2), (3, 3, 3), (4, 4, 4), (4, 4, 16), (16, 4, 4), (8, 8, 8), (16, 16, 16), (20, 20, 20), (1, 16, 16))}
# Depthwise convolutions by what decides between their kernels: channels that fill vectors, steps, short lines.
DEPTHWISE = {
    f"depthwise {k}x{k} /{step} {c} of {size}": (c, c, k, (size, size), {"groups": c, "stride": step, "padding": k // 2})
    for c in (8, 32, 128)
    for k in (3, 5)
    for step in (1, 2)
    for size in (14, 56)
}
ALL = {**PROBLEMS, **RANDOM, **DEPTHWISE}
FITTED = {"random ": 200, "random product ": 40}  # of the random sites


def is_held_out(line):
    seed = re.match(r"(random (?:product )?)(\d+)", line["site"])
    return seed is not None and int(seed[2]) >= FITTED[seed[1]]


class Batch(torch.nn.Module):
    """Products of the matrices of an input and of a weight."""

    def __init__(self, count, n, k):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(count, k, n))

    def forward(self, x):
        return x @ self.weight


def model_of(name, form, dtype):
    """The module, which is a layer alone or between others, and its input."""
    torch.manual_seed(0)
    if name in PRODUCTS:
        m, n, k = PRODUCTS[name]
        model, x = torch.nn.Linear(k, n).eval(), torch.randn(m, k)
    elif name in BATCHES:
        count, m, n, k = BATCHES[name]
        model, x = Batch(count, n, k).eval(), torch.randn(count, m, k)
    else:
        model, x, _ = layers(ALL[name], "between" if form == "between" else "alone")
        if form == "channels_last":
            x = x.contiguous(memory_format=CHANNELS_LAST[x.dim()])
    return model.to(dtype), x.to(dtype)


CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def has_form(name, form):
    """False for products between others, and where an image has no order of channels."""
    if form == "channels_last":
        return name in ALL and len(ALL[name][3]) + 2 in CHANNELS_LAST
    return form == "alone" or name in ALL


def forcing(offer, without=None):
    """The variables with which this implementation is chosen wherever it makes an offer (None: as it is), and a pass is left out."""
    return {**({"INGOT_OFFER": offer} if offer else {}), **({"INGOT_DISABLE": without} if without else {})}


def compiled(model, x, target="cpu", **options):
    device = "cuda" if target.startswith("cuda") and torch.cuda.is_available() else "cpu"
    return ingot.compile(model.to(device), inputs=[x.to(device)], target=target, **options)


@contextlib.contextmanager
def environment(variables):
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def inspected(*arguments, **variables):
    tool = Path(os.environ.get("INGOT_LIBRARY_DIR") or RESULTS.parents[1] / "build/release") / "ingot"
    return subprocess.run([tool, "inspect", *arguments], capture_output=True, text=True, check=True, env={**os.environ, **variables}).stdout


def sites_in(path, forced={}, target=None):
    """For each step of a plan with several implementations, or with any where one is forced or another target asked for: its number, the chosen implementation, and the cost of each, None where it is
    refused for its cost."""
    text = inspected("--offers", path, *(["--target", target] if target else []), **forced)
    found = []
    for number, step in enumerate(re.split(r"\n(?=\S)", re.split(r"^forward for .*: steps and offers\n", text, flags=re.M)[1])):
        costs = {name: float(cost) for _, name, cost in re.findall(r"^    ([* ]) (\w+): cost ([-\d.e+inf]+)", step, re.M)}
        costs |= {name: None for name in re.findall(r"^    - (\w+): .*\(cost\)$", step, re.M)}
        if " for cpu" in text and any(name.startswith("depthwise_") for name in costs):  # where images are copied, the step has one offer alone
            costs = {name: costs.get(name) for name in ("depthwise_conv", "depthwise_lines")}
        chosen = re.search(r"^    \* (\w+): ", step, re.M)
        if len(costs) > 1 or ((forced or target) and costs):
            found.append({"step": number, "chosen": chosen and chosen[1], "costs": costs})
    return found


KERNELS = {"cublaslt": "matmul"}  # of implementations with another name


def kernels_in(path):
    """The kernels of the plan's steps, as they are in the file; of several alternatives the first."""
    return set(re.findall(r"^ +\d+  (\w+)", inspected("--steps", path), re.M))


def sites_of(module, target=None):
    with tempfile.NamedTemporaryFile(suffix=".ingot") as file:
        ingot.save(module, file.name)
        return sites_in(file.name, target=target)


def measure_steps(module, x):
    """A function that returns the nanoseconds of each step, and its M, N and K: of the fastest of `n` calls."""
    session = module.engine.session()
    arrays, made = [x], session.run(x)

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


def build(job):
    """Compiles a site as it is and with each implementation: the plans' paths by implementation, None for the first, and the steps with several offers. On a GPU that is the layer's own, and the plan as
    it is runs the chosen one."""
    name, form, dtype, target, folder = job
    model, x = model_of(name, form, dtype)
    paths = {}

    def add(offer, without=None):
        """True if the implementation was chosen: one that is refused for its cost cannot always be forced."""
        path, forced = os.path.join(folder, f"{offer}.ingot"), forcing(offer, without)
        with environment(forced):  # saving compiles again for an image whose axes lie in another order
            ingot.save(compiled(model, x, target), path)
        if offer is None or (any(site["chosen"] == offer for site in sites_in(path, forced)) and KERNELS.get(offer, offer) in kernels_in(path)):
            paths[offer] = path
        return offer in paths

    os.makedirs(folder)
    add(None)
    sites = sites_in(paths[None])
    if target != "cpu":
        sites = [costliest(sites)] if sites else []
    for offer in sorted({offer for site in sites for offer in site["costs"]}):
        if target != "cpu" and offer == sites[0]["chosen"]:
            paths[offer] = paths[None]
            continue
        if not add(offer) and target != "cpu":
            add(offer, PADDING)
    return name, form, dtype, paths, sites


def largest_site(sites, steps):
    """The layer's own site: of the largest work. `steps`: their nanoseconds and M, N and K."""
    return max(sites, key=lambda s: math.prod(steps[s["step"]][1]))


def costliest(sites):
    """The layer's own site, where no time is known: the one whose cheapest offer costs most."""
    return max(sites, key=lambda site: min((cost for cost in site["costs"].values() if cost is not None), default=0))


# Columns are padded for implementations that need it, so that others make no offer.
PADDING = "pad_output_channels"
# A CUDA graph takes so long, if no more calls than this are enough: its launch takes some microseconds. Seconds.
GRAPH, MAX_CALLS = 3e-4, 64


def measured_on_gpu(built, rounds):
    """A line of the results; None: no step has several offers that can be forced."""
    name, form, dtype, paths, sites = built
    forced = {offer: path for offer, path in paths.items() if offer is not None}
    if len(forced) < 2:
        return None
    x, measures = model_of(name, form, dtype)[1].to("cuda"), {}
    for offer, path in forced.items():
        call = functools.partial(ingot.load(path, device="cuda"), x)
        measures[offer] = recorded(call, max(1, min(MAX_CALLS, round(GRAPH / recorded(call, 1)(5)))))
    ns = {offer: round(seconds * 1e9) for offer, seconds in interleave(measures, rounds, 1).items()}
    return {"site": site_name(name, form, dtype), "chosen": sites[0]["chosen"], "ran": ns[sites[0]["chosen"]], "costs": sites[0]["costs"], "ns": ns}


def measured(built, rounds, device):
    """A line of the results; None: no step has several offers whose times differ."""
    name, form, dtype, paths, sites = built
    if not sites:
        return None
    if device == "cuda":
        return measured_on_gpu(built, rounds)
    _, x = model_of(name, form, dtype)
    calls = {}
    for offer, path in paths.items():
        try:
            calls[offer] = measure_steps(ingot.load(path, device=device), x)
        except ingot.FormatError:  # layouts are chosen for AVX-512: with less, a kernel that is forced may not be able to compute them
            if offer is None:
                raise
    steps = calls[None](1)
    site = largest_site(sites, steps)
    sizes = steps[site["step"]][1]
    calls = {offer: call for offer, call in calls.items() if offer is None or offer in site["costs"]}
    best = {}
    for _ in range(rounds):
        for offer, call in calls.items():
            best[offer] = min(best.get(offer, math.inf), time_of(call(5), sizes, form))
    if not all(best.values()):
        return None  # a build has no step of these sizes
    ran = best.pop(None)
    costs = {offer: cost if cost is not None and math.isfinite(cost) else None for offer, cost in site["costs"].items()}
    return {"site": site_name(name, form, dtype), "chosen": site["chosen"], "ran": ran, "costs": costs, "ns": best}


def site_name(name, form, dtype):
    return f"{name}, {form}" + ("" if dtype is torch.float32 else f", {str(dtype).removeprefix('torch.')}")


def site_named(text):
    name, form, *dtype = text.split(", ")
    return name, form, getattr(torch, dtype[0]) if dtype else torch.float32


def compiles_alone():
    """A process that compiles leaves the GPU to the one that measures."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(1)


def measure(wanted, arguments, target, end):
    """Lines of these sites, until the time is over: processes compile, this one measures."""
    folder = tempfile.mkdtemp()
    jobs = [(name, form, dtype, target, os.path.join(folder, str(i))) for i, (name, form, dtype) in enumerate(wanted)]
    try:
        with multiprocessing.get_context("spawn").Pool(arguments.jobs, compiles_alone, maxtasksperchild=50) as pool:
            for found in pool.imap_unordered(build, jobs):
                if time.monotonic() > end:
                    print("the time is over: run the command again to go on")
                    pool.terminate()
                    return
                if line := measured(found, arguments.rounds, arguments.device):
                    yield line
                shutil.rmtree(os.path.dirname(found[3][None]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def chosen_today(site, offers, target, machine):
    """The implementation that compile chooses for the layer's own step, which has these offers. None: no step has them. A layer alone may have others now, where an image is copied or no longer is: a
    line counts all steps of it."""
    name, form, dtype = site_named(site)
    model, x = model_of(name, form, dtype)
    if target != "cpu":  # no device code is needed to ask for offers; a layer alone has one step of these implementations. TF32: as torch has it for convolutions on a GPU
        sites = [site for site in sites_of(compiled(model, x, convolution_precision="tf32"), target) if site["chosen"] in offers]
        return costliest(sites)["chosen"] if sites else None
    made = compiled(model, x, target, machine=machine)
    sites = sites_of(made)
    same = [site for site in sites if site["costs"].keys() == set(offers)] or (sites if form == "alone" else [])
    return largest_site(same, measure_steps(made, x)(1))["chosen"] if same else None


def row_of(path):
    """The target of a file of results, and the row of the table of machines whose choices it judges: on a CPU that of its instruction set."""
    level = path.stem.split("-")[-1]
    return ("cuda:sm_90", "table") if "nvidia" in path.name else ("cpu", "table" if level == "avx512" else f"cpu:{level}")


def name_of_cpu(dtype):
    """Of this machine: with the instruction set for this type."""
    name, _, level = machine_name().rpartition("-")
    flags = open("/proc/cpuinfo").read()
    if dtype is torch.bfloat16 and "INGOT_ISA" not in os.environ:
        level = next((found for found in ("amx_bf16", "avx512_bf16") if found in flags), level)
    return f"{name}-{level}"


def judge(lines, target="cpu", machine="table"):
    """For each line the share that today's choice loses to the fastest offer, the most first; then the choice, the fastest and the site."""
    lost = []
    for line in lines:
        chosen = chosen_today(line["site"], tuple(sorted(line["costs"])), target, machine)
        if len(line["ns"]) > 1 and chosen in line["ns"]:
            fastest = min(line["ns"], key=line["ns"].get)
            lost.append((line["ns"][chosen] / line["ns"][fastest] - 1, chosen, fastest, line["site"]))
    return sorted(lost, reverse=True)


def summary(lost):
    shares = [share for share, *_ in lost]
    return sum(share <= 0.1 for share in shares) / len(shares), sum(shares) / len(shares)


def gpu():
    """The target of the GPU here, and its name in files."""
    major, minor = torch.cuda.get_device_capability()
    return f"cuda:sm_{major}{minor}", torch.cuda.get_device_name().lower().replace(" ", "-")


def main():
    parser = problems_parser(__doc__.split("\n")[0])
    parser.add_argument("--judge", action="store_true", help="compile and compare with the times of the file")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--types", default=None, help="float32,bfloat16; of a GPU float16,float32 if none are given, else float32")
    parser.add_argument("--jobs", type=int, default=None, help="processes that compile; of a GPU all cores but one, else 1, as they disturb what is measured at the same time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long")
    parser.set_defaults(form=None)
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    arguments.jobs = arguments.jobs or (max(1, os.cpu_count() - 1) if on_gpu else 1)
    forms = (arguments.form or ("alone,channels_last" if on_gpu else "between,alone")).split(",")
    dtypes = [getattr(torch, name) for name in (arguments.types or ("float16,float32" if on_gpu else "float32")).split(",")]
    end = time.monotonic() + arguments.seconds
    torch.set_num_threads(arguments.threads)
    os.environ["INGOT_CACHE"] = "off"
    target, machine = gpu() if on_gpu else ("cpu", name_of_cpu(dtypes[0]))
    path = RESULTS / f"offers-{machine}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if arguments.judge:
        for kind, held_out in (("fitted", False), ("held-out", True)):
            lost = judge([line for line in lines if is_held_out(line) == held_out], *row_of(path))
            near, mean = summary(lost)
            for share, chosen_name, fastest, site in lost[:10]:
                print(f"{share:7.1%} lost: {chosen_name} instead of {fastest}: {site}")
            print(f"{len(lost)} {kind} sites: within 10 % of the fastest offer {near:.1%}, mean loss {mean:.2%}")
        return
    every = [(name, form, dtype) for name in [*PRODUCTS, *BATCHES, *ALL] if re.search(arguments.only, name) for form in forms if has_form(name, form) for dtype in dtypes]
    if on_gpu:  # a part of them is a fair sample; depthwise convolutions have one implementation
        every = [site for site in every if site[0] not in DEPTHWISE and not site[0].startswith("depthwise")]
    if arguments.seconds < math.inf:
        random.Random(0).shuffle(every)
    have = {line["site"] for line in lines}
    wanted = [site for site in every if site_name(*site) not in have]
    for line in measure(wanted, arguments, target, end):
        fastest = min(line["ns"], key=line["ns"].get)
        text = ", ".join(f"{n} {t / 1e3:.1f} ({line['costs'][n]})" for n, t in line["ns"].items())
        print(f"{line['ran'] / line['ns'][fastest]:6.2f} {line['chosen']:14} {line['site']}: {text}", flush=True)
        if not arguments.dry:
            with open(path, "a") as file:
                file.write(json.dumps({**line, "threads": arguments.threads}) + "\n")


if __name__ == "__main__":
    main()
