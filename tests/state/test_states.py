"""States separate from modules and sessions: several sequences through one module, forks, errors; on a small Llama with a cache in buffers."""

import copy
import gc
import json
import threading

import numpy as np
import pytest
import torch

import ingot


class Attention(torch.nn.Module):
    """Two heads, rotary positions, keys and values of all tokens so far in buffers."""

    def __init__(self, width, length):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width, bias=False) for _ in range(4))
        self.register_buffer("keys", torch.zeros(1, 2, length, width // 2))
        self.register_buffer("values", torch.zeros(1, 2, length, width // 2))

    def forward(self, x, position):
        q, k, v = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        half = q.shape[-1] // 2
        angle = position * torch.pow(100.0, -torch.arange(half) / half)
        cos, sin = torch.cos(angle).repeat(2), torch.sin(angle).repeat(2)
        q, k = (t * cos + torch.cat([-t[..., half:], t[..., :half]], -1) * sin for t in (q, k))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        seen = torch.arange(self.keys.shape[2]) <= position
        made = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen[None, None, None])
        return self.o(made.transpose(1, 2).flatten(2))


class Llama(torch.nn.Module):
    def __init__(self, width=16, length=24):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(40, width), torch.nn.Linear(width, 40, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(4))
        self.attention = torch.nn.ModuleList(Attention(width, length) for _ in range(2))
        self.gate, self.up, self.down = torch.nn.Linear(width, 32, bias=False), torch.nn.Linear(width, 32, bias=False), torch.nn.Linear(32, width, bias=False)
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, id):
        x = self.embed(id)
        for attention, before, after in zip(self.attention, self.norms[::2], self.norms[1::2]):
            x = x + attention(before(x), self.position)
            h = after(x)
            x = x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))
        self.position += 1
        return self.head(x)


class HalfInTorch(Llama):
    """Its head runs in torch."""

    def forward(self, id):
        return torch.ops.aten.special_airy_ai(super().forward(id))


def token(n):
    return torch.tensor([[n % 40]])


def compiled(kind=Llama):
    torch.manual_seed(0)
    model = kind().eval().requires_grad_(False)
    return model, ingot.compile(model, inputs=[token(0)])


def same(given, expected):
    return torch.allclose(torch.as_tensor(given), torch.as_tensor(expected), atol=1e-5)


@pytest.mark.parametrize("kind", [Llama, HalfInTorch])
def test_interleaved_sequences_and_forks(kind):
    model, module = compiled(kind)
    assert (len(module.report.segments) == 1 and module.report.whole) == (kind is Llama)
    eager = [copy.deepcopy(model) for _ in range(3)]
    states = [module.new_state() for _ in range(2)]
    a, b = (module.with_state(s) for s in states)
    for n in range(6):
        assert same(a(token(n)), eager[0](token(n))) and same(b(token(7 * n + 3)), eager[1](token(7 * n + 3)))
    states.append(states[0].fork())
    eager[2] = copy.deepcopy(eager[0])
    c = module.with_state(states[2])
    for n in range(6, 12):
        assert same(c(token(2 * n)), eager[2](token(2 * n))) and same(a(token(n)), eager[0](token(n))) and same(b(token(5 * n)), eager[1](token(5 * n)))
    for state, model_of in zip(states, eager):
        assert state.keys() == dict(model.named_buffers()).keys() and all(same(state[name], tensor) for name, tensor in model_of.named_buffers())
    assert not any(t.any() for t in model.buffers())  # the model's own were left alone
    assert same(module(token(1)), copy.deepcopy(eager[0]).__class__.forward(_fresh(model), token(1)))


def _fresh(model):
    made = copy.deepcopy(model)
    for tensor in made.buffers():
        tensor.zero_()
    return made


def test_an_entry_is_written_in_place():
    """state[name] -= 1 also assigns, by Python's rule. A value that does not fit leaves the entry unchanged."""
    _, module = compiled()
    state = module.new_state()
    name, entry = next(iter(state.items()))
    state[name] -= 2
    state[name] += torch.ones_like(entry)
    assert state[name] is entry and (entry == -1).all()
    for wrong in (3, torch.zeros(2, 2), entry.to(torch.complex64)):
        with pytest.raises(ingot.InputError, match=f"buffer '{name}' is {entry.dtype}"):
            state[name] = wrong
    with pytest.raises(ingot.InputError, match="writes no buffer 'nowhere'"):
        state["nowhere"] = entry
    assert (entry == -1).all()


def test_copy_and_reset():
    model, module = compiled()
    eager = copy.deepcopy(model)
    a, b = module.new_state(), module.new_state()
    first = module.with_state(a)(token(3))
    assert same(first, eager(token(3)))
    assert b.copy_(a) is b and same(module.with_state(b)(token(4)), copy.deepcopy(eager)(token(4)))
    a.reset()
    assert not a["position"].any() and b["position"] == 2 and same(module.with_state(a)(token(3)), first)
    model.embed.weight.data.mul_(2)  # current weights count, for any state
    assert same(module.with_state(a)(token(4)), _with(model, a, 1)(token(4)))
    a["position"].fill_(5)
    assert module.with_state(a) and a.fork()["position"] == 5


def _with(model, state, position):
    made = copy.deepcopy(model)
    made.load_state_dict({**model.state_dict(), **{n: t.clone() for n, t in state.items()}})
    made.position.fill_(position)
    for attention in made.attention:
        attention.keys[:, :, position:] = 0
        attention.values[:, :, position:] = 0
    return made


def test_of_a_file(tmp_path):
    model, module = compiled()
    ingot.save(module, tmp_path / "llama.ingot")
    loaded = ingot.load(tmp_path / "llama.ingot")
    a, b = loaded.new_state(), loaded.new_state()
    eager = [copy.deepcopy(model) for _ in range(2)]
    for n in range(4):
        assert same(loaded.with_state(a)(token(n)), eager[0](token(n))) and same(loaded.with_state(b)(token(9 * n)), eager[1](token(9 * n)))
    assert loaded.position == 0 and a["position"] == 4


@pytest.mark.parametrize("kind", [Llama, HalfInTorch])
def test_of_a_module_in_files(kind, tmp_path):
    model, module = compiled(kind)
    state, eager = module.new_state(), copy.deepcopy(model)
    for n in range(3):
        module.with_state(state)(token(n)), eager(token(n))
    state.save(tmp_path / "state")
    _, again = compiled(kind)
    other = again.new_state()
    assert other.load(tmp_path / "state") is other and other["position"] == 3 and other.bytes == sum(t.nbytes for t in other.values())
    assert same(again.with_state(other)(token(7)), eager(token(7)))
    whole = (tmp_path / "state").read_bytes()
    for torn in (whole[:-1], b"", b"text", whole.replace(b"position", b"positioN"), whole.replace(b'"data_offsets":[', b'"data_offsets": 5,"x":[', 1), whole.replace(b'"data_offsets":[0', b'"data_offsets":[0.5', 1)):
        (tmp_path / "state").write_bytes(torn)
        with pytest.raises(ingot.FormatError):
            other.load(tmp_path / "state")
    with pytest.raises(ingot.IoError):
        other.load(tmp_path / "none")
    assert other["position"] == 4


def test_a_state_of_a_module_is_one_of_its_engine(tmp_path):
    model, module = compiled()
    state = module.new_state()
    module.with_state(state)(token(5))
    state.save(tmp_path / "state")
    theirs = module.engine.new_state().load(tmp_path / "state")
    assert theirs["position"] == 1 and all(same(theirs[name], value) for name, value in state.items())
    theirs.save(tmp_path / "back")
    assert module.new_state().load(tmp_path / "back")["position"] == 1


def test_wrong_states():
    _, module = compiled()
    _, other = compiled()
    state = module.new_state()
    with pytest.raises(ingot.InputError, match="a module runs with a state of its own"):
        other.with_state(state)
    with pytest.raises(ingot.InputError, match="a state copies one of the same module"):
        state.copy_(other.new_state())
    with pytest.raises(ingot.InputError, match="the module writes no buffer 'cache'"):
        state["cache"]
    state._used.acquire()  # as a call of another thread does
    with pytest.raises(ingot.InputError, match="the state is in use"):
        module.with_state(state)(token(0))
    state._used.release()
    module.with_state(state)(token(0))


def test_many_threads():
    model, module = compiled()
    expected = {}
    for t in range(8):
        eager = copy.deepcopy(model)
        expected[t] = [eager(token(t + 3 * n)) for n in range(10)]
    right = []

    def decode(t):
        run = module.with_state(module.new_state())
        right.append(all(same(run(token(t + 3 * n)), expected[t][n]) for n in range(10)))

    threads = [threading.Thread(target=decode, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 8


def test_of_an_engine():
    model, module = compiled()
    engine, eager = module.engine, [copy.deepcopy(model) for _ in range(2)]
    session = engine.session()
    a = engine.new_state()
    assert list(a) == [s["name"] for s in engine.states()] and a["position"] == 0
    for n in range(3):
        assert same(session.run(token(n).numpy(), state=a)[0], eager[0](token(n)))
    b = a.fork()
    eager[1] = copy.deepcopy(eager[0])
    for n in range(3, 6):
        assert same(session.run(token(n).numpy(), state=a)[0], eager[0](token(n))) and same(session.run(token(6 * n).numpy(), state=b)[0], eager[1](token(6 * n)))
    assert session.state["position"] == 0  # its own
    # Reading returns the memory itself, and keeps it alive.
    keys = a["attention.0.keys"]
    assert same(keys, eager[0].attention[0].keys) and np.shares_memory(keys, a.tensor("attention.0.keys").numpy())
    a["position"] = 1
    assert a["position"] == 1 and a.read("position") == 1
    a.copy_(b)
    assert a["position"] == 6 and same(keys, eager[1].attention[0].keys)
    del a
    gc.collect()
    assert same(keys, eager[1].attention[0].keys)
    b.reset()
    assert b["position"] == 0


def test_files(tmp_path):
    model, module = compiled()
    engine, session, eager = module.engine, module.engine.session(), copy.deepcopy(model)
    a, path = engine.new_state(), tmp_path / "a.safetensors"
    for n in range(3):
        session.run(token(n).numpy(), state=a), eager(token(n))
    a.save(path)
    _, again = compiled()
    b = again.engine.new_state()
    assert b.load(path) is b and b["position"] == 3 and b.bytes == sum(v.nbytes for v in b.values())
    assert same(again.engine.session().run(token(7).numpy(), state=b)[0], eager(token(7)))
    # Any reader of safetensors reads it.
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert list(header) == list(a) and header["position"] == {"dtype": "I64", "shape": [1], "data_offsets": header["position"]["data_offsets"]}
    begin, end = header["attention.1.keys"]["data_offsets"]
    assert np.array_equal(np.frombuffer(data[8 + length :][begin:end], np.float32), a.read("attention.1.keys").ravel())
    path.write_bytes(data[:-1])
    with pytest.raises(ingot.FormatError, match="bytes of values, and a state like this one has"):
        b.load(path)
    with pytest.raises(ingot.FormatError, match="is not a saved state with the entries of this one"):
        b.load(__file__)
    assert b["position"] == 4


def test_of_torchs_memory():
    model, module = compiled()
    engine, session, eager = module.engine, module.engine.session(), copy.deepcopy(model)
    wide = torch.zeros(1, 2, 24, 16)
    keys, position = wide[..., ::2], np.zeros(1, np.int64)
    state = engine.new_state({"attention.0.keys": keys, "position": position})
    for n in range(3):
        assert same(session.run(token(n).numpy(), state=state)[0], eager(token(n)))
    assert same(keys, eager.attention[0].keys) and not wide[..., 1::2].any() and position == 3
    assert state["attention.0.keys"].data_ptr() == keys.data_ptr() and state.tensor("position")[0] == 3
    assert same(state.fork()["attention.0.keys"], keys)
    for memory, said in [
        ({"keys": keys}, "the engine has no state 'keys'"),
        ({"position": torch.zeros(1)}, r'the memory given for state "position" \(float32 \[1\]\) does not have its dtype and shape'),
        ({"position": [0]}, "the value given for state 'position' is of type list"),
        ({"position": torch.zeros(1, dtype=torch.int64, device="meta")}, "state 'position' is on the meta device"),
        ({"position": np.zeros(1, ">i8")}, "the array given for state 'position' is read-only"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            engine.new_state(memory)
    with pytest.raises(ingot.InputError, match="the engine has no state 'nothing'"):
        state["nothing"]
    with pytest.raises(ingot.InputError, match='"position" and "id" share memory'):
        session.run(state["position"].reshape(1, 1), state=state)


class Given(torch.nn.Module):
    """Its cache is an input, so it may have any length."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, x, position, cache):
        cache.index_copy_(0, position, self.project(x)[None])
        self.seen += 1
        weights = torch.softmax((cache @ x).masked_fill(torch.arange(cache.shape[0]) > position, float("-inf")), 0)
        return weights @ cache


def test_sizes_of_its_own(tmp_path):
    torch.manual_seed(0)
    model = Given().eval().requires_grad_(False)
    x = torch.randn(40, 8)
    module = ingot.compile(
        copy.deepcopy(model), inputs=[x[0], torch.tensor([0]), ingot.Input(min_shape=(2, 8), opt_shape=(16, 8), max_shape=(64, 8), shared_dims={0: "length"})]
    )
    engine = module.engine
    session = engine.session()
    assert "length" in engine.symbols()
    states, caches = [engine.new_state(length=n) for n in (4, 12)], [torch.zeros(n, 8) for n in (4, 12)]
    for n in range(4):
        for state, cache in zip(states, caches):
            given = session.run(x[n].numpy(), np.array([n]), state=state)[0]
            assert same(given, model(x[n], torch.tensor([n]), cache)) and same(state["cache"], cache)
    # It grows when it is full; a fork and a file have its sizes.
    state, cache = states[0].grow(length=9), torch.cat([caches[0], torch.zeros(5, 8)])
    fork = state.fork()
    for n in range(4, 9):
        given = session.run(x[n].numpy(), np.array([n]), state=state)[0]
        assert same(given, model(x[n], torch.tensor([n]), cache)) and same(state["cache"], cache)
    assert state["seen"] == 9 and fork["seen"] == 4 and same(fork["cache"][:4], cache[:4]) and not fork["cache"][4:].any()
    state.save(tmp_path / "state")
    again = engine.new_state(length=9).load(tmp_path / "state")
    assert same(again["cache"], cache) and again["seen"] == 9
    with pytest.raises(ingot.FormatError):
        engine.new_state(length=10).load(tmp_path / "state")
    # The caller's cache, with the state's buffers.
    mine = np.zeros((5, 8), np.float32)
    session.run(x[0].numpy(), np.array([0]), mine, state=fork)
    assert mine[0].any() and fork["seen"] == 5
    with pytest.raises(ingot.InputError, match="outside the range 2..64"):
        engine.new_state(length=65)
    with pytest.raises(ingot.InputError, match='the plan has no size "lenght"'):
        engine.new_state(lenght=5)
    with pytest.raises(ingot.InputError, match="which is smaller"):
        state.grow(length=8)
    with pytest.raises(ingot.InputError, match='input "cache" has no data|takes 3 inputs|the plan takes'):
        session.run(x[0].numpy(), np.array([0]))
