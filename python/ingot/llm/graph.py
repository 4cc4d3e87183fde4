"""The module that is compiled: a causal language model of transformers with its caches as inputs that it writes.

transformers' own classes stay as they are. Its attention layers call the function that the configuration names (`AttentionInterface`), or ask for a mask by that name (`AttentionMaskInterface`) and
compute attention themselves; its caches are objects with `update`. This file gives one of each. The mask follows from the positions alone, so each row of a batch has a length of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin, LinearAttentionCacheLayerMixin

from ..errors import UnsupportedError
from .check import REMEDY, check_step, refusing

NAME = "ingot"  # of the attention function


ENCODED = 127  # the largest number of an int8 that encodes a key or a value: of the symmetric range


@dataclass(frozen=True)
class Entry:
    """One tensor of a state, by its name in the plan. shape: its axes after the batch; None for the axis of tokens."""

    name: str
    shape: tuple[int | None, ...]
    dtype: torch.dtype

    @property
    def is_cache(self) -> bool:
        return None in self.shape


def encoded(entries: list[Entry], dtype: torch.dtype | None) -> list[Entry]:
    """The entries with keys and values in another type. None: their own. int8 has, for each head and token, a scale in their own type."""
    if dtype is None:
        return entries
    found = []
    for e in entries:
        found.append(dataclasses.replace(e, dtype=dtype))
        if dtype == torch.int8:
            found.append(Entry(e.name + "_scale", (*e.shape[:-1], 1), e.dtype))
    return found


class Step(torch.nn.Module):
    """One step of a model: takes new tokens of each row, writes the state, and returns logits.

    ids [batch, tokens] int64. lengths [batch] int64: how many of a row's ids count. take [batch, kept] int64: of which of a row's ids logits are wanted.
    position [batch] int64: how many tokens a row's state holds. entries: the state's tensors; written.
    Returns logits [batch, kept, vocabulary].

    Entries may have another type than the model's keys and values (`encoded`).
    Caches in pages (page: tokens of one): an entry is a pool [pages, heads, page, width], and in front of position is table [batch, columns] int64, the numbers of each row's pages. The page of
    the last column takes ids that do not count.
    Caches in one piece (page is None): an entry is [batch, heads, places, width], of which the last place takes ids that do not count; position is written.
    """

    def __init__(self, model, entries: list[Entry], page: int | None):
        super().__init__()
        self.model, self.entries, self.page = model, entries, page
        self.is_recurrent = any(not e.is_cache for e in entries)
        self.parameter = _cache_parameter(model)

    def forward(self, ids, lengths, take, *rest):
        table, position, *entries = rest if self.page is not None else (None, *rest)
        steps = torch.arange(ids.shape[1], device=ids.device)
        counts = steps < lengths[:, None]
        places = torch.where(counts, position[:, None] + steps, 0)
        by_layer: dict[int, dict[str, torch.Tensor]] = {}
        for entry, tensor in zip(self.entries, entries):
            _, layer, kind = entry.name.split(".")
            by_layer.setdefault(int(layer), {})[kind] = tensor
        cells = _InOnePiece(counts, places) if table is None else _InPages(counts, places, table, self.page)
        layers = [_Layer(by_layer.get(i, {}), cells) for i in range(max(by_layer) + 1)]
        before = {e.name: t.clone() for e, t in zip(self.entries, entries) if not e.is_cache}
        given = {self.parameter: _Layers(layers)} | ({} if self.is_recurrent and not any(e.is_cache for e in self.entries) else {"position_ids": places})
        with _attention(self.model, _Masks(places)), _logits_of(self.model, take):
            logits = self.model(input_ids=ids, use_cache=True, **given).logits
        for entry, tensor in zip(self.entries, entries):
            if not entry.is_cache:  # a row without a token keeps what it has
                tensor.copy_(torch.where((lengths > 0).view(-1, *[1] * (tensor.dim() - 1)), tensor, before[entry.name]))
        if table is None:
            position.add_(lengths)
        return logits


def entries_of(model) -> list[Entry]:
    """What the model's layers keep, found by one token in eager."""
    found: list[Entry] = []
    device = next(model.parameters()).device
    cache = _Layers(_Recorder(found, i) for i in range(model.config.get_text_config().num_hidden_layers))
    masks = _Masks(torch.zeros(1, 1, dtype=torch.int64, device=device))
    with torch.no_grad(), refusing(model), _attention(model, masks):
        model(input_ids=torch.zeros(1, 1, dtype=torch.int64, device=device), use_cache=True, **{_cache_parameter(model): cache})
    if masks.used and (windows := masks.asked - masks.used - {None}):
        raise UnsupportedError(f"{type(model).__name__} has layers that see {max(windows)} tokens by a mask alone", remedy=REMEDY)
    if not found:
        raise UnsupportedError(f"{type(model).__name__} puts nothing into the cache that it is given", remedy="ingot.llm takes decoders of transformers that use its Cache")
    return found


def check(model, entries: list[Entry], max_length: int):
    """Refuses a model whose step would compute something else than the model (check.py)."""
    device = next(model.parameters()).device

    def empty(batch, places):
        return [torch.zeros(batch, *(places if size is None else size for size in e.shape), dtype=e.dtype, device=device) for e in entries]

    check_step(model, Step(model, entries, None), empty, max_length)


def _cache_parameter(model) -> str:
    names = inspect.signature(model.forward).parameters
    return "cache_params" if "cache_params" in names else "past_key_values"


class _Layers(Cache):
    def __init__(self, layers):
        super().__init__(layers=list(layers))

    def get_seq_length(self, layer_idx=0):
        return 0  # positions are given

    def get_mask_sizes(self, query_length, layer_idx=0):
        """How many places layers with a cache have, and where they begin."""
        return next((layer.places, 0) for layer in self.layers if layer.places is not None)

    def get_conv_state(self, layer_idx, state_idx=0):
        return self.layers[layer_idx].kept("conv", state_idx)

    def get_recurrent_state(self, layer_idx, state_idx=0):
        return self.layers[layer_idx].kept("recurrent", state_idx)


class _Common(CacheLayerMixin, LinearAttentionCacheLayerMixin):
    """A layer with a cache, a recurrent state, or both."""

    is_sliding = False

    def __init__(self):
        CacheLayerMixin.__init__(self)
        LinearAttentionCacheLayerMixin.__init__(self)
        self.is_initialized = True

    def lazy_initialization(self, *args, **kwargs):
        pass

    def get_mask_sizes(self, query_length):
        return self.places, 0

    def get_seq_length(self):
        return 0

    def get_max_length(self):
        return -1

    def update_conv_state(self, conv_states, state_idx=0, **kwargs):
        raise UnsupportedError("the model's layers take several tokens into their convolution at once", remedy="ingot.llm gives such a model one token at a time")

    def update_recurrent_state(self, recurrent_states, state_idx=0, **kwargs):
        raise UnsupportedError("the model's layers replace their recurrent state", remedy="ingot.llm takes layers that write it in place")


class _InOnePiece:
    """Where the tokens of a step are in a cache [batch, heads, places, width]."""

    def __init__(self, counts, places):
        self._counts, self._places = counts, places

    def write(self, cache, new):
        """new: [batch, heads, tokens, width]."""
        rows = torch.arange(cache.shape[0], device=cache.device)[:, None]
        cache[rows, :, torch.where(self._counts, self._places, cache.shape[2] - 1)] = new.transpose(1, 2)

    def read(self, cache):
        """All that each row has: [batch, heads, places, width]."""
        return cache

    def places(self, cache) -> int:
        return cache.shape[2]


class _InPages:
    """The same of a pool [pages, heads, page, width]."""

    def __init__(self, counts, places, table, page):
        self._table = table
        self._pages = table.gather(1, torch.where(counts, places // page, table.shape[1] - 1))
        self._rows = places % page

    def write(self, pool, new):
        pool[self._pages, :, self._rows] = new.transpose(1, 2)

    def read(self, pool):
        return pool[self._table].transpose(1, 2).flatten(2, 3)

    def places(self, pool) -> int:
        return self._table.shape[1] * pool.shape[2]


class _Layer(_Common):
    def __init__(self, tensors, cells):
        super().__init__()
        self._tensors, self._cells = tensors, cells

    def update(self, key_states, value_states, *args, **kwargs):
        found = []
        for kind, new in (("keys", key_states), ("values", value_states)):
            cache, scales = self._tensors[kind], self._tensors.get(f"{kind}_scale")
            if scales is None:
                self._cells.write(cache, new.to(cache.dtype))
                found.append(self._cells.read(cache).to(new.dtype))
                continue
            scale = (new.float().abs().amax(-1, keepdim=True) / ENCODED).to(scales.dtype)
            self._cells.write(scales, scale)
            scale = scale.float()
            numbers = torch.where(scale > 0, new.float() / scale, 0).round().clamp(-ENCODED, ENCODED)
            self._cells.write(cache, numbers.to(torch.int8))
            found.append(self._cells.read(cache).to(new.dtype) * self._cells.read(scales))
        return tuple(found)

    @property
    def places(self):
        return self._cells.places(self._tensors["keys"]) if "keys" in self._tensors else None

    def kept(self, kind, state_idx):
        return self._tensors[f"{kind}{state_idx}"]


class _Recorder(_Common):
    """Notes the shapes of what one token puts into a layer."""

    def __init__(self, found, layer):
        super().__init__()
        self._found, self._layer = found, layer

    def _note(self, kind, tensor, shape):
        name = f"layers.{self._layer}.{kind}"
        if all(e.name != name for e in self._found):
            self._found.append(Entry(name, shape, tensor.dtype))

    def update(self, key_states, value_states, *args, **kwargs):
        for kind, tensor in (("keys", key_states), ("values", value_states)):
            self._note(kind, tensor, (tensor.shape[1], None, tensor.shape[3]))
        return key_states, value_states

    places = 1

    def kept(self, kind, state_idx):
        return None

    def update_conv_state(self, conv_states, state_idx=0, conv_kernel_size=None, **kwargs):
        self._note(f"conv{state_idx}", conv_states, (*conv_states.shape[1:-1], conv_kernel_size or conv_states.shape[-1]))
        return F.pad(conv_states, ((conv_kernel_size or conv_states.shape[-1]) - conv_states.shape[-1], 0))

    def update_recurrent_state(self, recurrent_states, state_idx=0, **kwargs):
        self._note(f"recurrent{state_idx}", recurrent_states, tuple(recurrent_states.shape[1:]))
        return recurrent_states


class _Masks:
    """The masks of a step: a token sees the tokens up to itself, of a window those in it. Layers share them."""

    def __init__(self, places):
        self._places, self._made = places, {}
        self.used, self.asked = set(), set()  # the windows of what attends by `_attend`, and of masks that the model asked for

    def of(self, keys: int, window: int | None):
        if window not in self._made:
            key, place = torch.arange(keys, device=self._places.device), self._places[:, None, :, None]
            seen = key <= place
            self._made[window] = seen if window is None else seen & (key > place - window)
        return self._made[window]


_masks: list[_Masks] = []  # of the step that is being traced


@contextlib.contextmanager
def _attention(model, masks):
    """While a step runs: the model's attention layers call `_attend`."""
    configurations = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None and hasattr(c, "_attn_implementation")}
    before = [(c, c._attn_implementation) for c in configurations.values()]
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _mask)
    _masks.append(masks)
    try:
        for c, _ in before:
            c._attn_implementation = NAME
        yield
    finally:
        _masks.pop()
        for c, name in before:
            c._attn_implementation = name


def _attend(module, query, key, value, attention_mask=None, scaling=None, dropout=0.0, sliding_window=None, softcap=None, s_aux=None, **kwargs):
    """Attention over the whole cache, in the form that transformers calls: query [batch, heads, tokens, width], keys and values [batch, groups, places, width]."""
    _masks[-1].used.add(sliding_window)
    mask = _masks[-1].of(key.shape[2], sliding_window)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if softcap is None and s_aux is None:
        out = F.scaled_dot_product_attention(query, key, value, mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    else:
        groups = query.shape[1] // key.shape[1]
        scores = torch.matmul(query, key.repeat_interleave(groups, 1).transpose(2, 3)) * scaling
        scores = torch.where(mask, scores if softcap is None else torch.tanh(scores / softcap) * softcap, float("-inf"))
        if s_aux is not None:  # a score [heads] that takes part in the softmax and has no value
            scores = torch.cat([scores, s_aux.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
        out = torch.matmul(weights if s_aux is None else weights[..., :-1], value.repeat_interleave(groups, 1))
    return out.transpose(1, 2).contiguous(), None


def _mask(batch_size, q_length, kv_length, local_size=None, dtype=torch.float32, **kwargs):
    """For layers that add a mask to their scores themselves: [batch, 1, tokens, places], 0 or the least number, as transformers' "eager" has it. `_attend` does not read it."""
    _masks[-1].asked.add(local_size)
    seen = _masks[-1].of(kv_length, local_size)
    return torch.zeros((), dtype=dtype, device=seen.device).where(seen, torch.finfo(dtype).min)


@contextlib.contextmanager
def _logits_of(model, take):
    """While a step runs: the model's head sees only the hidden states at `take`."""

    def chosen(head, inputs):
        hidden = inputs[0]
        return (hidden[torch.arange(hidden.shape[0], device=hidden.device)[:, None], take], *inputs[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(chosen)
    try:
        yield
    finally:
        handle.remove()
