"""Compares random programs by every way through ingot with eager. Seeds are fixed, so a failure is the same everywhere; `make differential` draws others."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

import known
import pytest
import quiet
import torch
import ways
import worker
from campaign import Tally, grown, run_all
from grow import Kinds
from judge import Judge
from observe import Eager

from ingot.errors import DeviceError

ALL = os.environ.get("INGOT_TEST_ALL") == "1"
CHUNK, CHUNKS = 50, 40  # programs of a chunk, and chunks that run in process; those after them run by every way
IN_PROCESS, OF_EACH, EVERY_WAY = (CHUNKS, CHUNK, 200) if ALL else (4, 25, 15)
ROOT = Path(__file__).resolve().parents[2]
FAULTS = sorted(ROOT.glob("tests/differential/faults/*.patch"))
TALLY = Tally()
long = pytest.mark.skipif(not ALL, reason="INGOT_TEST_ALL=1 runs it: it takes minutes")


@lru_cache(maxsize=None)
def programs(chunk):
    return grown(range(chunk * CHUNK, (chunk + 1) * CHUNK), Kinds())


def finish(tally, run, to_fail=frozenset()):
    """Reports failures, reduced, as the test's message. `to_fail`: the seeds that must fail."""
    TALLY.add(tally)
    failures = [f for f in tally.failures if f.seed not in known.SEEDS]
    shown = [str(f.reduced(run, 30)) for f in failures[:2]]
    assert not failures, f"{len(failures)} programs failed: seeds {[f.seed for f in failures]}\n\n" + "\n\n".join(shown)
    mended = to_fail - {f.seed for f in tally.failures}
    assert not mended, f"seeds {sorted(mended)} no longer fail: take them out of known.SEEDS"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with quiet.hushed():
        yield
    torch.set_num_threads(before)
    torch._dynamo.reset()


@pytest.mark.parametrize("chunk", range(IN_PROCESS))
def test_in_process(chunk):
    """Three of four programs run ahead of time, one by torch.compile; a third of them has open sizes."""
    way, tally = "torch.compile" if chunk % 4 == 3 else "ahead", Tally()
    run_all(programs(chunk)[:OF_EACH], way, ways.ALL[way], tally)
    finish(tally, ways.ALL[way], known.SEEDS.keys() & {*range(chunk * CHUNK, chunk * CHUNK + OF_EACH)})


@pytest.mark.parametrize("way", [w for w in ways.ALL if w != "CUDA code"])
def test_every_way(way):
    tally = Tally()
    for chunk in range(-(-EVERY_WAY // CHUNK)):
        run_all(programs(CHUNKS + chunk)[:EVERY_WAY], way, ways.ALL[way], tally)
    finish(tally, ways.ALL[way])


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_instruction_set(isa):
    if isa != "portable" and not (torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and isa == "avx2" or torch.backends.cpu.get_cpu_capability() == "AVX512"):
        pytest.skip(f"this machine has no {isa}")
    tally = worker.run(range(CHUNKS * CHUNK, CHUNKS * CHUNK + EVERY_WAY), Kinds(), "ahead", {"INGOT_ISA": isa})
    finish(tally, ways.ahead)


@long
def test_cuda_code():
    """Programs that are one engine in a file. Their printed code compiles for sm_80 without a GPU, and runs if there is one."""
    tally = Tally()
    for chunk in range(EVERY_WAY // CHUNK):
        run_all(programs(CHUNKS + chunk), "CUDA code", ways.cuda_code, tally, together=20)
    if any("NVRTC" in f.message and f.message.startswith(DeviceError.__name__) for f in tally.failures):
        pytest.skip(tally.failures[0].message.splitlines()[0])
    finish(tally, ways.cuda_code)


# ---- tests of the generator, the judge and the list of known failures


@long
def test_programs_call_every_operator():
    """Every operator is called, except those in NEVER."""
    import operators

    called = {step.target for chunk in range(CHUNKS) for program in programs(chunk) for step in program.steps}
    rows = {o.row: False for kind in operators.table().values() for o in kind}
    for kind in operators.table().values():
        for o in kind:
            rows[o.row] |= o.target in called
    assert {row for row, done in rows.items() if not done} == set(operators.NEVER)


@long
def test_few_are_undecidable():
    judges = [Judge(Eager(p)) for p in programs(0)]
    counts = sum((j.compare(j.eager.plain).counts for j in judges), start=Tally().elements)
    assert counts["undecidable"] < 0.04 * counts["elements"], counts


def spoiled(t: torch.Tensor) -> torch.Tensor:
    """The tensor with one element changed."""
    changed = t.clone()
    flat = changed.view(-1)
    if t.dtype is torch.bool:
        flat[-1] = ~flat[-1]
    else:
        flat[-1] = flat[-1] + (1 if not t.dtype.is_floating_point else t.abs().nan_to_num(1, 1, 1).max() / 8 + 1e-3)
    return changed


@long
def test_judge_sees_one_wrong_element():
    seen = missed = 0
    for program in programs(1):
        judge = Judge(Eager(program))
        assert not judge.compare(judge.eager.plain).problems, "eager itself"
        for label, thing in judge.eager.plain[0].things.items():
            hangs, _ = judge.undecidable(0, label)
            if not thing.values.numel() or hangs.view(-1)[-1] or thing.values.dtype.is_floating_point and not thing.values.view(-1)[-1].isfinite():
                continue
            right, thing.values = thing.values, spoiled(thing.values)
            other = Judge(Eager(program))
            problems = other.compare(judge.eager.plain).problems
            thing.values = right
            seen, missed = seen + bool(problems), missed + (not problems)
    assert seen > 100 and missed == 0, (seen, missed)


@pytest.mark.parametrize("patch", FAULTS, ids=lambda patch: patch.stem)
def test_faults_apply_to_the_sources(patch):
    """`prove.py` can put each of them in."""
    done = subprocess.run(["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("entry", known.KNOWN, ids=lambda k: k.name)
def test_known_faults_are_still_there(entry):
    with pytest.raises(Exception):
        entry.shows()
