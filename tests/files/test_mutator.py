"""Loads and calls some thousand plans whose signature is changed value by value, in one process. Only ingot's errors may come, in bounded time and memory."""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crafted import Source, seal, sections

import ingot

ALL = os.environ.get("INGOT_TEST_ALL") == "1"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)

    def forward(self, x, pair, *, scale):
        y = self.line(x) * scale["by"] + pair[1]
        return {"y": y, "top": torch.topk(y, 2)}, [x.shape[0] * 2 + 1, (pair[0], None, 3)], torch.nn.functional.relu(y)


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(0)
    dynamic = ingot.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), name="x")
    models = []

    class Named(Source):
        def __init__(self):
            from ingot.engine import _library
            from ingot.module.module_kinds import FromModel

            set_signature = _library.Model.set_signature
            _library.Model.set_signature = lambda model, text: (models.append((model, text)), set_signature(model, text))
            try:
                self.module = ingot.compile(Model().eval(), inputs=[dynamic, (1, torch.ones(4))], kwarg_inputs={"scale": {"by": 2.0}})
                if len(models) == 1 and isinstance(self.module._kind, FromModel) and not self.module._kind.runnable.straight:
                    self.module._kind.plan()  # the model alone, as ingot.save compiles it
            finally:
                _library.Model.set_signature = set_signature
            self._model, self.text = models[-1]

        def plan(self, text=None, **changes):
            text = text if text is not None else json.dumps({**self.signature, **changes})
            self._model.set_signature(text)
            return self._model.compile({"fallback": "error"}).bytes(True)

    made = Named()
    assert call_of(made)(made.plan()) == "answered"
    return made


def call_of(source):
    arguments, keywords = (torch.ones(3, 4), (1, torch.ones(4))), {"scale": {"by": 2.0}}
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"ingot-mutator-{os.getpid()}.ingot"

    def call(data: bytes):
        path.write_bytes(data)
        try:
            module = ingot.load(path, mmap=False)
            module(*arguments, **keywords)
            return "answered"
        except ingot.InternalError:
            raise
        except ingot.Error as problem:
            return type(problem).__name__
        finally:
            path.unlink()

    return call


def places(value, path=()):
    """Paths to every value inside."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def nested(depth, wrap):
    found = "*"
    for _ in range(depth):
        found = wrap(found)
    return found


REPLACEMENTS = [
    None, True, False, 0, 1, -1, 2, 2**31, 2**63, -(2**64), 10**300, 0.0, -0.5, 1e308, float("nan"), float("inf"), "", "*", "x", "\ud800", "\0", "é" * 300, "9**9**9**9", "s0*" * 3000, "__class__",
    [], [0], [[]], ["*"], [None] * 1000, {}, {"is": "tuple", "of": []}, {"tensor": 0}, {"constant": {}}, {"size": {"text": "s", "axes": {"s": [0, 0]}}},
    {"is": "namedtuple", "name": "builtins:eval", "keys": ["a"], "of": ["*"]}, {"is": "node", "name": "collections:deque", "context": None, "of": ["*"]},
    {"is": "dict", "keys": [{"a": 1}], "of": ["*"]}, nested(300, lambda x: {"is": "list", "of": [x]}), nested(900, lambda x: [x]),
]  # fmt: skip


def changed(text, path, change):
    root = [json.loads(text)]
    at = root
    for key in (0, *path)[:-1]:
        at = at[key]
    change(at, (0, *path)[-1])
    return json.dumps(root[0])


def remove(at, key):
    del at[key]


def double(at, key):
    at.insert(key, at[key]) if isinstance(at, list) else at.update({f"{key}'": at[key]})


def wrap(at, key):
    at[key] = [at[key]]


def rename(at, key):
    if isinstance(at, dict):
        at[key + "_"] = at.pop(key)


def replaced_by(value):
    def change(at, key):
        at[key] = value

    return change


def mutants(text, count, seed=1):
    """Texts with one change at each place by each means, `count` of them; then some with several."""
    generator = random.Random(seed)
    paths = list(places(json.loads(text)))
    single = [(path, change) for path in paths if path for change in (remove, double, wrap, rename, *map(replaced_by, REPLACEMENTS))]
    generator.shuffle(single)
    for path, change in single[:count]:
        yield changed(text, path, change)
    for _ in range(count // 4):
        several = text
        for _ in range(generator.randint(2, 4)):
            path, change = generator.choice(single)
            try:
                several = changed(several, path, change)
            except (KeyError, IndexError, TypeError, AttributeError):
                continue
        yield several
    for _ in range(count // 4):  # the text itself
        letters = list(text)
        for _ in range(generator.randint(1, 3)):
            at = generator.randrange(len(letters))
            letters[at] = generator.choice(['"', "[", "]", "{", "}", ",", ":", "0", "9", "-", "\\", "e", ""])
        yield "".join(letters)


def survey(source, files):
    """How often each kind of answer came. Fails on one that took long, or took much memory."""
    call, answers, slowest = call_of(source), {}, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in files:
        start = time.process_time()
        answer = call(data)
        slowest = max(slowest, time.process_time() - start)
        answers[answer] = answers.get(answer, 0) + 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(answers, f"slowest {slowest * 1e3:.0f} ms, {grown / 1024:.0f} MiB more")
    assert slowest < 5 and grown < 512 * 1024
    return answers


def test_signatures(source):
    answers = survey(source, (source.plan(text) for text in mutants(source.text, 20000 if ALL else 1500)))
    assert answers["FormatError"] > sum(answers.values()) / 3 and answers["answered"] > 0


def test_metadata(source):
    """Bytes of the rest of the metadata, with checksums that fit, through Python's reader of plans."""
    generator, good = random.Random(2), source.plan()
    (begin, end), _ = sections(good)

    def files():
        for _ in range(20000 if ALL else 600):
            data = bytearray(good)
            for _ in range(generator.choice([1, 1, 1, 2, 8])):
                data[generator.randrange(begin, end)] = generator.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF, generator.randrange(256)])
            yield seal(bytes(data))

    assert survey(source, files())["FormatError"] > 100
