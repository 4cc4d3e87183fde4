"""`ingot.llm.compile` and the `LanguageModel` that it returns: steps over the plan, and generation over steps."""

from __future__ import annotations

import copy
import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..ahead_of_time import compile_with_record
from ..errors import InputError, OptionError, UnsupportedError
from ..inputs import Input
from ..module.module import Module
from .sampling import Choice, Draws
from .state import State, _numbers

RECORD = "language_model"  # the part of a plan's signature that `LanguageModel` reads


def compile(
    model: torch.nn.Module | str | os.PathLike[str],
    *,
    max_length: int,
    max_batch: int = 1,
    dtype: torch.dtype | str = "auto",
    weight_dtype: str | None = None,
    target: Any = "auto",
    **option: Any,
) -> LanguageModel:
    """Compiles a causal language model of transformers for generation: one plan that takes prompts, parts of prompts and single tokens.

    Arguments:
        model: a model object (`AutoModelForCausalLM`), or a folder with config.json and *.safetensors as `save_pretrained` writes it. Of a folder nothing is executed
            (no remote code), and generation_config.json, the tokenizer's files and the chat template come along.
        max_length: the most tokens that a sequence has, prompt and answer together. Memory is taken as tokens come.
        max_batch: the most sequences in a state.
        dtype: the type of weights and arithmetic; "auto" is the model's. Another one than a model object's makes a copy of the model.
        weight_dtype: the storage of weights, as ingot.compile takes it ("int8").
        target, **option: as ingot.compile takes them.

    Returns a `LanguageModel`. The model's weights are its own, with a packed copy beside them; a file that was saved and loaded has its weights once.

    Raises InputError for wrong sizes and folders, UnsupportedError for a model that is no causal decoder or has an operator without an engine.
    """
    files: dict[str, bytes] = {}
    if isinstance(model, (str, os.PathLike)):
        from .folder import read

        model, files = read(model, dtype)
    for name, value in (("max_length", max_length), ("max_batch", max_batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name} is {value!r}, and has to be 1 or more")
    _refuse_others(model)
    wanted = _dtype_of(dtype)
    if wanted is not None and wanted != model.dtype:
        model = copy.deepcopy(model).to(wanted)
    from . import graph

    entries = graph.entries_of(model)
    step = graph.Step(model, entries)
    step.training = model.training
    record = {"max_length": max_length, "max_batch": max_batch, "vocabulary": model.get_input_embeddings().weight.shape[0], "recurrent": step.is_recurrent, **_generation_of(model),
              "files": {name: data.decode() for name, data in files.items()}}  # fmt: skip
    options = {"fallback": "error", "target": target, **option} | ({} if weight_dtype is None else {"weight_dtype": weight_dtype})
    module = compile_with_record(step, _inputs_of(entries, max_length, max_batch, step.is_recurrent), {RECORD: record}, options)
    return LanguageModel(module)


def _refuse_others(model):
    remedy = "give a model of transformers (AutoModelForCausalLM) or its folder"
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config") or not hasattr(model, "get_output_embeddings"):
        raise InputError(f"a {type(model).__name__} is no language model of transformers", remedy=remedy)
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{type(model).__name__} has an encoder and a decoder, and ingot.llm takes decoders", remedy='torch.compile its generate() with backend="ingot"')
    if model.get_output_embeddings() is None:
        raise UnsupportedError(f"{type(model).__name__} has no head that gives logits", remedy=remedy)


def _dtype_of(given) -> torch.dtype | None:
    """A float type of torch, by itself or by name; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    found = getattr(torch, given, None) if isinstance(given, str) else given
    if found not in (torch.float32, torch.bfloat16, torch.float16):
        raise OptionError(f"dtype is {given!r}", remedy="torch.float32, torch.bfloat16, torch.float16 or \"auto\"")
    return found


def _generation_of(model) -> dict:
    """What transformers' generate() would do without arguments: the ids that end a sequence, the id after them, and how tokens are chosen."""
    given = model.generation_config
    ends = given.eos_token_id if given.eos_token_id is not None else model.config.get_text_config().eos_token_id
    ends = [] if ends is None else [int(ends)] if isinstance(ends, int) else [int(n) for n in ends]
    pad = given.pad_token_id if given.pad_token_id is not None else ends[0] if ends else 0
    chosen = {"temperature": 0.0}
    if given.do_sample:
        chosen = {name: value for name in ("temperature", "top_k", "top_p", "min_p") if (value := getattr(given, name, None)) is not None} or {}
        chosen.setdefault("temperature", 1.0)
        if chosen.get("top_k") == 0:
            del chosen["top_k"]
    if given.repetition_penalty not in (None, 1.0):
        chosen["repetition_penalty"] = given.repetition_penalty
    return {"stop": ends, "pad": int(pad), "generation": chosen}


def _inputs_of(entries, max_length, max_batch, is_recurrent) -> list[Input]:
    batch, tokens, kept = (1, 1, max_batch, "batch"), (1, 1, max_length, "tokens"), (1, 1, max_length, "kept")
    tokens, kept = ((1, 1, 1, ""), (1, 1, 1, "")) if is_recurrent else (tokens, kept)
    places = (2, max_length + 1, max_length + 1, "places")  # with one for ids that do not count
    given = [("ids", torch.int64, (batch, tokens)), ("lengths", torch.int64, (batch,)), ("take", torch.int64, (batch, kept)), ("position", torch.int64, (batch,))]
    given += [(e.name, e.dtype, (batch, *(places if size is None else (size, size, size, "") for size in e.shape))) for e in entries]
    return [
        Input(min_shape=[a[0] for a in axes], opt_shape=[a[1] for a in axes], max_shape=[a[2] for a in axes], dtype=dtype, name=name, shared_dims={i: a[3] for i, a in enumerate(axes) if a[3]})
        for name, dtype, axes in given
    ]


class LanguageModel:
    """A compiled causal language model. `ingot.llm.compile` and `ingot.llm.load` return one. Threads share it, each with a state of its own.

    Attributes:
        max_length: the most tokens of a sequence.
        max_batch: the most sequences of a state.
        vocabulary: how many ids there are.
        stop: the ids that end a sequence.
        pad: the id that a sequence yields after its end.
        generation: what `generate` does without arguments, by name.
        device: where it runs, and where logits and tokens are.
        files: the files of the tokenizer and of the chat template, by name; empty if the model came without a folder.
        module: the ingot.Module, with its report and its engine.
    """

    def __init__(self, module: Module):
        self.module, self._engine = module, module.engine
        record = self._engine.signature[RECORD]
        self.max_length, self.max_batch, self.vocabulary, self.is_recurrent = (record[name] for name in ("max_length", "max_batch", "vocabulary", "recurrent"))
        self.stop, self.pad, self.generation = list(record["stop"]), record["pad"], dict(record["generation"])
        self.files: dict[str, str] = dict(record["files"])
        out = self._engine.outputs()[0]
        self._logits = getattr(torch, out["dtype"]), int(out["dims"][-1])
        self.device = torch.device(self._engine.device) if self._engine.device is not None else None
        self._a_cache = next((b["name"] for b in self._engine.inputs() if b["name"].endswith(".keys")), None)
        self._sessions: list = []

    # -- states

    def new_state(self, batch: int = 1) -> State:
        """An empty state of so many sequences."""
        if type(batch) is not int or not 1 <= batch <= self.max_batch:
            raise InputError(f"batch is {batch!r}, and the model was compiled for 1 to {self.max_batch}", remedy="ingot.llm.compile(.., max_batch=..)")
        return State(self, self.empty(batch), [0] * batch)

    def empty(self, batch: int):
        return self.allocated(batch, 2)

    def allocated(self, batch: int, places: int | None):
        sizes = {"batch": batch} if self.max_batch > 1 else {}
        return self._engine.new_state(**sizes, **({"places": places} if self._a_cache is not None and places is not None else {}))

    def grown(self, inner, tokens: int):
        """The state's memory with room for so many tokens: at least doubled, if it has to grow."""
        if self._a_cache is not None:
            room = self._places_of(inner) - 1
            if tokens > room:
                inner.grow(places=min(max(tokens, 2 * room), self.max_length) + 1)
        return inner

    def _places_of(self, inner) -> int:
        return inner.dims(self._a_cache)[2]

    # -- steps

    def step(self, state: State, ids, lengths=None, logits: str = "last") -> torch.Tensor:
        """Takes the next tokens of each sequence.

        Arguments:
            state: of this model, for as many sequences as ids has rows. Written.
            ids: int64 [batch, tokens] with any number of tokens: a prompt, a part of one, or one token.
            lengths: how many ids of each row count, from the left: a number for each row, 0 too. None: all.
            logits: "last": of the last token of each row, [batch, vocabulary]. "all": of each, [batch, tokens, vocabulary]. Values of ids that do not count mean nothing.

        Returns the logits, in the model's type, on its device.

        Raises InputError for ids outside of the vocabulary, more tokens than max_length, another batch than the state's, or a state of another model. The state is then as it was.
        """
        if logits not in ("last", "all"):
            raise InputError(f'logits is {logits!r}, and has to be "last" or "all"')
        if not isinstance(state, State) or state._lm is not self:
            raise InputError("the state belongs to another model", remedy="make it with this model's new_state(); State.save and State.load carry one over")
        with state.in_use():
            return self._take(state, *self._checked(state, ids, lengths), logits)

    def _take(self, state, ids, counts, logits="last"):
        """`step` for ids that were checked."""
        state.make_room(max(length + count for length, count in zip(state._lengths, counts)))
        made = (self._by_token if self.is_recurrent else self._at_once)(state, ids, counts, logits)
        state.took(counts)
        return made

    def _checked(self, state, ids, lengths) -> tuple[torch.Tensor, list[int]]:
        ids = torch.as_tensor(ids)
        if ids.dim() != 2 or ids.shape[0] != state.batch or ids.shape[1] < 1 or ids.dtype not in (torch.int64, torch.int32):
            raise InputError(f"ids are {ids.dtype} {list(ids.shape)}, and have to be int64 [{state.batch}, tokens]: the state has {state.batch} sequences")
        ids = ids.to(self.device, torch.int64)
        counts = [ids.shape[1]] * state.batch if lengths is None else _numbers(lengths, state.batch, "lengths")
        for row, (count, length) in enumerate(zip(counts, state._lengths)):
            if not 0 <= count <= ids.shape[1]:
                raise InputError(f"lengths[{row}] is {count}, and row {row} has {ids.shape[1]} ids")
            if length + count > self.max_length:
                raise InputError(f"sequence {row} has {length} tokens, and {count} more are over max_length, {self.max_length}", remedy="ingot.llm.compile(.., max_length=..), or state.rewind")
        if min(counts) < ids.shape[1]:  # what does not count may be anything
            ids = torch.where(torch.arange(ids.shape[1], device=self.device) < torch.tensor(counts, device=self.device)[:, None], ids, 0)
        low, high = (int(n) for n in torch.aminmax(ids))
        if low < 0 or high >= self.vocabulary:
            raise InputError(f"id {low if low < 0 else high} is outside of the vocabulary, 0 to {self.vocabulary - 1}")
        return ids, counts

    def _at_once(self, state, ids, counts, logits):
        lengths = torch.tensor(counts, device=self.device)
        take = (lengths - 1).clamp(min=0)[:, None] if logits == "last" else torch.arange(ids.shape[1], device=self.device).repeat(ids.shape[0], 1)
        made = self._run(state, ids, lengths, take)
        return made[:, 0] if logits == "last" else made

    def _by_token(self, state, ids, counts, logits):
        """Recurrent layers take one token at a time."""
        found = []
        for n in range(ids.shape[1] if logits == "all" else max(1, *counts)):
            takes = torch.tensor([int(n < count) for count in counts], device=self.device)
            found.append(self._run(state, ids[:, n : n + 1].contiguous(), takes, torch.zeros(len(counts), 1, dtype=torch.int64, device=self.device))[:, 0])
        if logits == "all":
            return torch.stack(found, 1)
        return torch.stack([found[max(count - 1, 0)][row] for row, count in enumerate(counts)])

    def _run(self, state, ids, lengths, take):
        dtype, vocabulary = self._logits
        out = torch.empty((*take.shape, vocabulary), dtype=dtype, device=self.device)
        session = self._sessions.pop() if self._sessions else self._engine.session()
        try:
            session.run(ids, lengths, take, state=state._inner, out=[out])
        finally:
            self._sessions.append(session)
        return out

    # -- generation

    def generate(
        self,
        state: State,
        ids,
        *,
        max_new_tokens: int,
        lengths=None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        stop: Sequence[int | Sequence[int]] | None = None,
        seed: int | Sequence[int] | None = None,
        logits_processors: Sequence[Callable] = (),
    ) -> Iterator[torch.Tensor]:
        """Takes a prompt and yields new tokens, one int64 tensor [batch] a step, until all sequences ended or max_new_tokens are there.

        Arguments:
            state, ids, lengths: as `step` takes them: the prompt, or what is new of it. The state then has the prompt and what was yielded, but for the last token.
            max_new_tokens: the most steps.
            temperature: 0 takes the likeliest token, other values draw one.
            top_k, top_p, min_p: which tokens are drawn from, as in transformers.
            repetition_penalty: divides scores of tokens that are in ids or were yielded.
            stop: ids, and lists of ids, after which a sequence ends. None: the model's end ids. Sequences that ended yield `pad`, and their state stays as it is.
            seed: of the draws. A seed gives a prompt the same draws in any batch. A number for all rows, or one for each. None: another one each time.
            logits_processors: functions (ids [1, tokens], scores [1, vocabulary]) -> scores, such as transformers' LogitsProcessors, called row by row.

        What is not given is as in `generation`, which the model brings along.

        Raises InputError as `step` does, before anything is taken, and for choices outside of their range.
        """
        given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
        choice = Choice(**{**self.generation, **{name: value for name, value in given.items() if value is not None}}, processors=tuple(logits_processors))
        if type(max_new_tokens) is not int or max_new_tokens < 1:
            raise InputError(f"max_new_tokens is {max_new_tokens!r}, and has to be 1 or more")
        if not isinstance(state, State) or state._lm is not self:
            raise InputError("the state belongs to another model", remedy="make it with this model's new_state()")
        ids, counts = self._checked(state, ids, lengths)
        for row, (length, count) in enumerate(zip(state._lengths, counts)):
            if count < 1:
                raise InputError(f"row {row} has no ids to begin with")
            if length + count + max_new_tokens - 1 > self.max_length:
                raise InputError(f"sequence {row} has {length} tokens, and {count} ids with {max_new_tokens} new ones are over max_length, {self.max_length}")
        ends = _Ends(self.stop if stop is None else stop, state.batch, self.vocabulary)
        draws = None if choice.temperature == 0 else Draws(_seeds(seed, state.batch))
        return self._generated(state, ids, counts, max_new_tokens, choice, ends, draws)

    def _generated(self, state, ids, counts, max_new_tokens, choice, ends, draws):
        tokens = [row[:count] for row, count in zip(ids, counts)] if choice.reads_tokens else []
        scores = self._advanced(state, ids, counts)
        for left in range(max_new_tokens - 1, -1, -1):
            scores = choice.scores(scores, tokens)
            chosen = scores.argmax(-1) if draws is None else draws.tokens(scores)
            chosen = ends.padded(chosen, self.pad)
            lives = ends.after(chosen)
            yield chosen
            if left == 0 or not any(lives):
                return
            tokens = [torch.cat([row, token[None]]) for row, token in zip(tokens, chosen)]
            scores = self._advanced(state, chosen[:, None], [int(live) for live in lives])

    def _advanced(self, state, ids, counts):
        with state.in_use():
            return self._take(state, ids, counts)

    # -- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to a .ingot file for `ingot.llm.load`: its plan, its weights, its end ids and defaults of generation, and `files`. Atomic."""
        from ..files import save

        save(self.module, path, format="ingot")

    def __repr__(self):
        return f"LanguageModel(max_length={self.max_length}, max_batch={self.max_batch}, vocabulary={self.vocabulary}, device={self.device})"


def _seeds(seed, batch: int) -> list[int]:
    if seed is None:
        return [random.getrandbits(62) for _ in range(batch)]
    return _numbers(seed, batch, "seed")


class _Ends:
    """Which sequences of a batch have ended."""

    def __init__(self, stop, batch, vocabulary):
        given = [[s] if isinstance(s, int) else list(s) for s in ([stop] if isinstance(stop, int) else stop)]
        for ids in given:
            if not ids or not all(type(n) is int for n in ids):
                raise InputError(f"stop has {ids!r}, and has to be ids and lists of ids", remedy="text is tokenised first")
        self._single = {ids[0] for ids in given if len(ids) == 1}
        self._several = [ids for ids in given if len(ids) > 1]
        self._longest = max(map(len, self._several), default=0)
        self._last: list[list[int]] = [[] for _ in range(batch)]
        self._lives = [True] * batch

    def padded(self, chosen, pad):
        return chosen if all(self._lives) else torch.where(torch.tensor(self._lives, device=chosen.device), chosen, pad)

    def after(self, chosen) -> list[bool]:
        """Which sequences go on after these tokens."""
        for row, token in enumerate(chosen.tolist() if self._single or self._several else ()):
            self._last[row] = [*self._last[row], token][-self._longest :] if self._longest else []
            if token in self._single or any(self._last[row][-len(ids) :] == ids for ids in self._several):
                self._lives[row] = False
        return self._lives
