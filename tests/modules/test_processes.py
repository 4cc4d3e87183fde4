"""Processes: children of fork() after sessions have run, DataLoader's and multiprocessing's workers, Ctrl-C. Each test has its own process with a time limit, so that one that hangs
fails. docs/modules.md says what is promised."""

import os
import signal
import subprocess
import sys

import fresh
import pytest

SECONDS = 240  # of one program; a child has 30

ALL = bool(os.environ.get("INGOT_TEST_ALL"))


def run(code, *arguments, seconds=SECONDS):
    done = fresh.run(code, *arguments, env={**os.environ, "OMP_NUM_THREADS": "2"}, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


CHILD = """
import os, signal, sys, threading, time

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a child that hangs dies
        try:
            os._exit(0 if work() else 3)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(4)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
"""

MODEL = """
import copy
import torch, ingot
torch.manual_seed(0)
torch.set_grad_enabled(False)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256), torch.nn.Softmax(-1)).eval()
x = torch.randn(64, 256)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    run(MODEL + """
import sys, numpy
compiled = ingot.compile(model, inputs=[x])
ingot.save(compiled, sys.argv[1] + "/m.ingot")
ingot.save(ingot.compile(model, inputs=[x], torch_executed_ops=["gelu"], min_block_size=1), sys.argv[1] + "/m.pt2", format="exported_program")
numpy.save(sys.argv[1] + "/x.npy", x.numpy())
numpy.save(sys.argv[1] + "/y.npy", compiled(x).numpy())
""", folder)  # fmt: skip
    return folder


# ---- fork


def test_without_torch(files):
    """The engine's own threads, in a Python that has never imported torch."""
    code = CHILD + """
import numpy, ingot
assert "torch" not in sys.modules
session = ingot.load_engine(sys.argv[1] + "/m.ingot", threads=3).session()
x, y = numpy.load(sys.argv[1] + "/x.npy"), numpy.load(sys.argv[1] + "/y.npy")
right = lambda: numpy.allclose(session.run(x)[0], y, atol=1e-6)
assert right()
def threads():
    return right() and len(os.listdir("/proc/self/task")) == 3
for _ in range(20):
    in_child(threads)
def grandchild():
    in_child(right)
    return right()
in_child(grandchild)
def anew():
    return numpy.allclose(ingot.load_engine(sys.argv[1] + "/m.ingot").session().run(x)[0], y, atol=1e-6)
in_child(anew)
assert right()
"""
    done = subprocess.run([sys.executable, "-c", code, files], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]


WAYS = {
    "one engine": "compiled = ingot.compile(model, inputs=[x])",
    "with torch's operators": 'compiled = ingot.compile(model, inputs=[x], torch_executed_ops=["gelu"], min_block_size=1)',
    "torch.compile": 'compiled = torch.compile(model, backend="ingot")',
    "a .ingot file": 'compiled = ingot.load(sys.argv[1] + "/m.ingot")',
    "a .pt2 file": 'compiled = ingot.load(sys.argv[1] + "/m.pt2")',
    "torch.export.load": 'compiled = torch.export.load(sys.argv[1] + "/m.pt2").module()',
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.one_in(3)
def test_with_torch(files, way):
    """Torch's threads are not there in a child: it computes on one, and so do torch's operators."""
    run(CHILD + MODEL + WAYS[way] + """
y = compiled(x)
torch.mm(torch.ones(600, 600), torch.ones(600, 600)), torch.ones(3000, 3000).exp_()  # torch's threads have worked too
right = lambda: torch.allclose(compiled(x), y, atol=1e-6)
for _ in range(5):
    assert right()
    in_child(right)
def changes():
    for p in model.parameters():
        p.mul_(1.5)
    return torch.allclose(compiled(x), model(x), atol=1e-5)
if "ingot.load" not in sys.argv[2] and "torch.export" not in sys.argv[2]:
    in_child(changes)
    in_child(lambda: torch.allclose(ingot.compile(model, inputs=[x])(x), y, atol=1e-6))
assert right()
""", files, WAYS[way])  # fmt: skip


def test_forks_while_threads_call(files):
    """Whatever the threads hold when a child is made is free in it."""
    count = 100 if ALL else 30
    said = run(CHILD + MODEL + f"""
compiled = [ingot.compile(model, inputs=[x]), ingot.load(sys.argv[1] + "/m.pt2"), torch.export.load(sys.argv[1] + "/m.pt2").module()]
session = ingot.load_engine(sys.argv[1] + "/m.ingot", threads=2).session()
y, stop, wrong = compiled[0](x), threading.Event(), []
def calls(some):
    while not stop.is_set():
        for call in some:
            if not torch.allclose(call(x), y, atol=1e-6):
                wrong.append(1)
# One thread alone runs operators of torch: three have been seen to wait for each other in libgomp for good.
threads = [threading.Thread(target=calls, args=(some,)) for some in (compiled[:1], compiled[:1], compiled[1:])]
[t.start() for t in threads]
def right():
    return all(torch.allclose(call(x), y, atol=1e-6) for call in compiled) and numpy.allclose(session.run(x.numpy())[0], y.numpy(), atol=1e-6)
import numpy
for _ in range({count}):
    in_child(right)
stop.set()
[t.join() for t in threads]
assert not wrong
print({count})
""", files, seconds=500)  # fmt: skip
    assert said == f"{count}\n"


# ---- workers

WORKERS = MODEL + """
import sys, multiprocessing, numpy

class Data(torch.utils.data.Dataset):
    def __init__(self, path, compiled=None):
        self.path, self.compiled = path, compiled
    def __len__(self):
        return 8
    def __getitem__(self, i):
        if self.compiled is None:
            self.compiled = ingot.load(self.path)
        return self.compiled(torch.full((64, 256), float(i)))

def work(path, queue):
    import torch, ingot
    with torch.no_grad():
        queue.put(ingot.load(path)(torch.ones(64, 256)).numpy())

def has(compiled, queue):
    queue.put(compiled(torch.ones(64, 256)).numpy())
"""


@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
@pytest.mark.one_in(3)
def test_workers(files, tmp_path, way):
    program = tmp_path / "program.py"
    program.write_text(WORKERS + """
def main():
    path, way = sys.argv[1:]
    compiled = ingot.load(path)
    compiled(x)
    expected = [compiled(torch.full((64, 256), float(i))) for i in range(8)]
    loader = torch.utils.data.DataLoader(Data(path, compiled if way == "fork" else None), batch_size=None, num_workers=2, multiprocessing_context=way)
    for _ in range(2):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(loader, expected, strict=True))
    context = multiprocessing.get_context(way)
    queue = context.Queue()
    for target, given in ((work, path),) + (((has, compiled),) if way == "fork" else ()):
        children = [context.Process(target=target, args=(given, queue)) for _ in range(2)]
        [c.start() for c in children]
        assert all(numpy.allclose(queue.get(timeout=60), expected[1].numpy(), atol=1e-6) for _ in children)
        [c.join(60) for c in children]
        assert [c.exitcode for c in children] == [0, 0]
    with context.Pool(2) as pool:
        assert len(pool.map(Data(path).__getitem__, range(3))) == 3

if __name__ == "__main__":
    main()
""")  # fmt: skip
    done = subprocess.run([sys.executable, program, files / "m.ingot", way], capture_output=True, text=True, timeout=SECONDS, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr[-4000:]


# ---- Ctrl-C


INTERRUPTED = MODEL + """
import signal, sys, time, random
large = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(4)]).eval()
tokens = torch.randn(2, 8, 64)
armed = False
def after(seconds, call):
    \"\"\"Whether Ctrl-C, sent then, ended the call.\"\"\"
    global armed
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)  # on a busy machine it is over before this returns
        call()
        armed = False  # a signal from here on belongs to no call
        return False
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
def interrupt(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
"""


def test_ctrl_c_while_compiling():
    """At any moment of capture and build; then the same is done once more and is right."""
    said = run(INTERRUPTED + """
program = torch.export.export(large, (tokens,))
for call, made in ((lambda: ingot.compile(large, inputs=[tokens]), 8), (lambda: ingot.compile(program), 12)):
    expected = call()(tokens)  # what is made at the first use is not timed
    begin = time.perf_counter()
    call()(tokens)
    whole, ended = time.perf_counter() - begin, 0
    for i in range(made):
        ended += after(whole * (i + 0.5) / made, call)
        assert torch.equal(call()(tokens), expected)
    print(ended)
assert torch.allclose(expected, large(tokens), atol=1e-4)
assert torch.nn.Module.__setattr__.__module__ == "torch.nn.modules.module"
""")  # fmt: skip
    assert all(int(n) >= 2 for n in said.split()), said  # of 8 and 12; a busy machine ends some calls before


def test_ctrl_c_that_torch_fails_to_clean_up_after():
    run(INTERRUPTED + """
class Model(torch.nn.Module):
    def forward(self, x):
        try:
            raise KeyboardInterrupt
        finally:
            raise AssertionError("Trying to pop empty mode stack")
try:
    ingot.compile(Model(), inputs=[torch.ones(2)])
except KeyboardInterrupt:
    pass
else:
    assert False
""")


def test_a_long_build_ends_soon():
    """The build is not waited for: between two passes it looks."""
    run(f"SECONDS = {SECONDS}\n" + INTERRUPTED + """
from ingot.engine import _library
stages = []
program = torch.export.export(large, (tokens,))
real = _library.Model.compile
def told(self, values, progress=None):
    def slow(stage, fraction):
        stages.append(stage)
        if len(stages) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
        time.sleep(0.2)
    return real(self, values, slow)
_library.Model.compile = told
assert after(SECONDS, lambda: ingot.compile(program))
assert 3 <= len(stages) <= 8, stages  # on a busy machine the signal comes later
_library.Model.compile = real
assert torch.allclose(ingot.compile(program)(tokens), large(tokens), atol=1e-4)
""")  # fmt: skip


def test_ctrl_c_while_running():
    times = 60 if ALL else 20
    said = run(f"times = {times}\n" + INTERRUPTED + """
calls = [ingot.compile(large, inputs=[tokens]), ingot.compile(large, inputs=[tokens], torch_executed_ops=["relu"], min_block_size=1)]
random.seed(0)
for compiled in calls:
    expected, ended = compiled(tokens), 0
    def many():
        while True:
            compiled(tokens)
    for _ in range(times):
        ended += after(random.uniform(0.001, 0.02), many)
        assert torch.equal(compiled(tokens), expected)
    def changing():
        while True:
            large[0].linear1.weight.add_(0.001)
            large[1].linear2.bias.data = large[1].linear2.bias.data * 1.001
            compiled(tokens)
    for _ in range(times):
        ended += after(random.uniform(0.001, 0.03), changing)
        assert torch.allclose(compiled(tokens), large(tokens), atol=1e-4)
    print(ended)
""")  # fmt: skip
    assert said.split() == [str(2 * times)] * 2


def test_a_real_signal(files):
    """SIGINT from outside ends `ingot.compile` of a waiting program with KeyboardInterrupt."""
    code = MODEL + """
from ingot.engine import _library
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs ignore it
real = _library.Model.compile
_library.Model.compile = lambda self, values, progress=None: real(self, values, lambda *_: print("compiling", flush=True) or time.sleep(0.1))
try:
    for _ in range(1000):
        ingot.compile(model, inputs=[x])
except KeyboardInterrupt:
    _library.Model.compile = real
    assert torch.allclose(ingot.compile(model, inputs=[x])(x), model(x), atol=1e-5)
    print("usable", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "compiling\n"
        for _ in range(3):  # Python drops an exception that comes while an object is deleted
            process.send_signal(signal.SIGINT)
            try:
                out, _ = process.communicate(timeout=SECONDS / 3)
                break
            except subprocess.TimeoutExpired:
                pass
    assert process.returncode == 0 and out.endswith("usable\n")
