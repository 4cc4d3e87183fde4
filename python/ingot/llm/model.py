"""`ingot.llm.compile` and the `LanguageModel` that it returns: steps over the plan, and generation over steps."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..ahead_of_time import compile_with_record
from ..capture import devices
from ..errors import InputError, UnsupportedError
from ..inputs import Input
from ..module.adapters import Adapters
from ..module.lora_target import Inside
from ..module.module import Module
from . import folder
from .batcher import Batcher
from .drafts import MODEL_TOKENS, PROMPT_TOKENS, Draft, OfModel, OfPrompt
from .flat import FlatCaches
from .generation import Ends, Generation, Task
from .grammar import Guide, Words
from .pages import MAX_PAGES, PAGE, PagedCaches, columns_of
from .sampling import Choice, Draws
from .state import State, Together, _numbers

RECORD = "language_model"  # the part of a plan's signature that `LanguageModel` reads


def compile(
    model: torch.nn.Module | str | os.PathLike[str],
    *,
    max_length: int,
    max_batch: int = 1,
    dtype: torch.dtype | str = "auto",
    weight_dtype: str | None = None,
    kv_dtype: torch.dtype | str = "auto",
    target: Any = "auto",
    kv_bytes: int | None = None,
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
        kv_dtype: the type of keys and values in states: "auto" for the model's, float16, bfloat16, or int8 with a scale for each head and token. Another one than "auto" needs
            caches in pages, which models of attention alone have on the CPU.
        target, **option: as ingot.compile takes them.
        kv_bytes: on the CPU, the most bytes that the keys and values of all states take. None: the machine's memory. It is not saved: ingot.llm.load takes it too.

    Returns a `LanguageModel`. The model's weights are its own, with a packed copy beside them; a file that was saved and loaded has its weights once.

    Raises InputError for wrong sizes and folders, OptionError for other wrong choices, UnsupportedError for a model that is no causal decoder or has an operator without an engine.
    """
    for name, value in (("max_length", max_length), ("max_batch", max_batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name} is {value!r}, and has to be 1 or more")
    model, files = folder.given(model, dtype, "AutoModelForCausalLM")
    _refuse_others(model)
    from . import graph

    entries = graph.entries_of(model)
    options = {"fallback": "error", "target": target, **option} | ({} if weight_dtype is None else {"weight_dtype": weight_dtype})
    page = PAGE if _takes_pages(entries, model, options) else None
    kept = _kept_as(kv_dtype, entries, page)
    graph.check(model, entries, max_length)
    entries = graph.encoded(entries, kept)
    step = graph.Step(model, entries, page)
    step.training = model.training
    record = {"max_length": max_length, "max_batch": max_batch, "vocabulary": model.get_input_embeddings().weight.shape[0], "recurrent": step.is_recurrent, "page": page, **_generation_of(model),
              "files": {name: data.decode() for name, data in files.items()}}  # fmt: skip
    module = compile_with_record(step, _inputs_of(entries, max_length, max_batch, step), {RECORD: record}, options)
    return LanguageModel(module, kv_bytes)


def _takes_pages(entries, model, options) -> bool:
    """Whether a kernel reads keys and values in pages: on the CPU, of all float types but float64. A model with recurrent layers has caches in one piece too."""
    targets = devices.targets(devices.placed(devices.written(options), next(model.parameters()).device, for_file=True))
    return all(e.is_cache and e.dtype != torch.float64 for e in entries) and all(t in devices.HOST for t in targets)


def _kept_as(kv_dtype, entries, page) -> torch.dtype | None:
    """The type of keys and values in states; None: the one that the model gives them."""
    kept = torch.int8 if kv_dtype in ("int8", torch.int8) else folder.dtype_of("kv_dtype", kv_dtype, 'torch.float16, torch.bfloat16, torch.int8 or "auto"')
    if kept is None or all(e.dtype == kept for e in entries):
        return None
    if page is None:
        raise UnsupportedError(f"kv_dtype is {kv_dtype!r}, and this model has its caches in one piece", remedy="models of attention alone have pages on the CPU")
    return kept


def _refuse_others(model):
    remedy = "give a model of transformers (AutoModelForCausalLM) or its folder"
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config") or not hasattr(model, "get_output_embeddings"):
        raise InputError(f"a {type(model).__name__} is no language model of transformers", remedy=remedy)
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{type(model).__name__} has an encoder and a decoder, and ingot.llm takes decoders", remedy='torch.compile its generate() with backend="ingot"')
    if model.get_output_embeddings() is None:
        raise UnsupportedError(f"{type(model).__name__} has no head that gives logits", remedy=remedy)


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


def _inputs_of(entries, max_length, max_batch, step) -> list[Input]:
    batch, tokens, kept = (1, 1, max_batch, "batch"), (1, 1, max_length, "tokens"), (1, 1, max_length, "kept")
    tokens, kept = ((1, 1, 1, ""), (1, 1, 1, "")) if step.is_recurrent else (tokens, kept)
    places = (2, max_length + 1, max_length + 1, "places")  # with one for ids that do not count
    first = batch
    given = [("ids", torch.int64, (batch, tokens)), ("lengths", torch.int64, (batch,)), ("take", torch.int64, (batch, kept))]
    if step.page is not None:
        columns = columns_of(max_length, step.page)
        places, first = (step.page, step.page, step.page, ""), (1, max_batch * columns, MAX_PAGES, "pages")
        given.append(("table", torch.int64, (batch, (2, columns, columns, "columns"))))
    given.append(("position", torch.int64, (batch,)))
    given += [(e.name, e.dtype, (first, *(places if size is None else (size, size, size, "") for size in e.shape))) for e in entries]
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

    def __init__(self, module: Module, kv_bytes: int | None = None):
        self.module, self._engine = module, module.engine
        record = self._engine.signature[RECORD]
        self.max_length, self.max_batch, self.vocabulary, self.is_recurrent = (record[name] for name in ("max_length", "max_batch", "vocabulary", "recurrent"))
        self.stop, self.pad, self.generation = list(record["stop"]), record["pad"], dict(record["generation"])
        self.files: dict[str, str] = dict(record["files"])
        out = self._engine.outputs()[0]
        self._logits = getattr(torch, out["dtype"]), int(out["dims"][-1])
        self.device = torch.device(self._engine.device) if self._engine.device is not None else None
        made = FlatCaches if record.get("page") is None else PagedCaches
        self._caches = made(self._engine, self.max_batch, self.max_length, kv_bytes)
        self._adapters: Adapters | None = None
        self._words: Words | None = None  # made by the first call with a schema

    # -- states

    def new_state(self, batch: int = 1) -> State:
        """An empty state of so many sequences."""
        if type(batch) is not int or not 1 <= batch <= self.max_batch:
            raise InputError(f"batch is {batch!r}, and the model was compiled for 1 to {self.max_batch}", remedy="ingot.llm.compile(.., max_batch=..)")
        return State(self, self._caches.new(batch), [0] * batch)

    # -- steps

    def step(self, state: State | Sequence[State], ids: Any, lengths: Any = None, logits: str = "last", *, adapter: str | None = None) -> torch.Tensor:
        """Takes the next tokens of each sequence.

        Arguments:
            state: of this model, for as many sequences as ids has rows. Written. On the CPU also a list of states: their sequences are the rows, in order.
            ids: int64 [batch, tokens] with any number of tokens: a prompt, a part of one, or one token.
            lengths: how many ids of each row count, from the left: a number for each row, 0 too. None: all.
            logits: "last": of the last token of each row, [batch, vocabulary]. "all": of each, [batch, tokens, vocabulary]. Values of ids that do not count mean nothing.
            adapter: the name of an adapter that `add_lora` was given. A state is of one adapter: what it has of others' tokens stays as they made it.

        Returns the logits, in the model's type, on its device.

        Raises InputError for ids outside of the vocabulary, more tokens than max_length, another batch than the states', a state of another model, or more memory than kv_bytes. The states are then
        as they were.
        """
        if logits not in ("last", "all"):
            raise InputError(f'logits is {logits!r}, and has to be "last" or "all"')
        states = [state] if isinstance(state, State) or not isinstance(state, Sequence) else list(state)
        if not states or not all(isinstance(one, State) and one._lm is self for one in states):
            raise InputError("the state belongs to another model", remedy="make it with this model's new_state(); State.save and State.load carry one over")
        with contextlib.ExitStack() as used:
            for one in states:
                used.enter_context(one.in_use())
            together = Together(states)
            return self._take(together, *self._checked(together.lengths, ids, lengths), logits, self._weights_of(adapter))

    def _take(self, together, ids, counts, logits="last", weights=None):
        """`step` for ids that were checked."""
        with self._caches.runner() as run:
            self._caches.make_room(together.memories, together.lengths, counts)
            made = (self._by_token if self.is_recurrent else self._at_once)(functools.partial(self._run, run, together, weights), ids, counts, logits)
        together.took(counts)
        return made

    def _checked(self, has: list[int], ids, lengths) -> tuple[torch.Tensor, list[int]]:
        """The ids, and how many count in each row. has: how many tokens each sequence has."""
        ids, batch = torch.as_tensor(ids), len(has)
        if batch > self.max_batch:
            raise InputError(f"the states have {batch} sequences, and the model was compiled for 1 to {self.max_batch}", remedy="ingot.llm.compile(.., max_batch=..)")
        if ids.dim() != 2 or ids.shape[0] != batch or ids.shape[1] < 1 or ids.dtype not in (torch.int64, torch.int32):
            raise InputError(f"ids are {ids.dtype} {list(ids.shape)}, and have to be int64 [{batch}, tokens]: the state has {batch} sequences")
        ids = ids.to(self.device, torch.int64).contiguous()
        counts = [ids.shape[1]] * batch if lengths is None else _numbers(lengths, batch, "lengths")
        for row, (count, length) in enumerate(zip(counts, has)):
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

    def _at_once(self, run, ids, counts, logits):
        lengths = torch.tensor(counts, device=self.device)
        take = (lengths - 1).clamp(min=0)[:, None] if logits == "last" else torch.arange(ids.shape[1], device=self.device).repeat(ids.shape[0], 1)
        made = run(ids, lengths, take)
        return made[:, 0] if logits == "last" else made

    def _by_token(self, run, ids, counts, logits):
        """Recurrent layers take one token at a time."""
        found = []
        for n in range(ids.shape[1] if logits == "all" else max(1, *counts)):
            takes = torch.tensor([int(n < count) for count in counts], device=self.device)
            found.append(run(ids[:, n : n + 1].contiguous(), takes, torch.zeros(len(counts), 1, dtype=torch.int64, device=self.device))[:, 0])
        if logits == "all":
            return torch.stack(found, 1)
        return torch.stack([found[max(count - 1, 0)][row] for row, count in enumerate(counts)])

    def _run(self, run, together, weights, ids, lengths, take):
        dtype, vocabulary = self._logits
        out = torch.empty((*take.shape, vocabulary), dtype=dtype, device=self.device)
        run(together.memories, together.lengths, ids, lengths, take, out, weights)
        return out

    # -- generation

    def generate(
        self,
        state: State,
        ids: Any,
        *,
        max_new_tokens: int,
        lengths: Any = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        stop: Sequence[int | Sequence[int]] | None = None,
        seed: int | Sequence[int] | None = None,
        logits_processors: Sequence[Callable[..., Any]] = (),
        draft: LanguageModel | State | str | None = None,
        draft_tokens: int | None = None,
        schema: Any = None,
        adapter: str | None = None,
        logprobs: int = 0,
    ) -> Generation:
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
            draft: guesses the next tokens, which the model then checks in one run. The tokens are those that come without it; only the time differs. "prompt": what followed the
                last tokens where they stood before in ids or the answer. A LanguageModel: a smaller one with the same vocabulary. A State of it: the same, for a conversation;
                it takes the tokens that `state` takes.
            draft_tokens: the most guesses of a run. None: 4 of a model, 10 of the prompt.
            schema: what the new tokens are to be as text: a JSON schema (dict), a regular expression (re.compile) or a grammar in Lark's form (str); one for all sequences, or a list
                with one for each (None: free). A sequence ends where it is complete. Needs the package llguidance, and a model that was compiled from a folder with tokenizer.json.
            adapter: as `step` takes it. A draft runs without.
            logprobs: how many of the likeliest tokens the attribute `logprobs` of the result reports after each step, with the logarithms of their probabilities. 0: none.

        What is not given is as in `generation`, which the model brings along. The result is an iterator with attributes of its own, see `Generation`.

        Raises InputError as `step` does, before anything is taken, and for choices outside of their range.
        """
        given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
        choice = Choice(**{**self.generation, **{name: value for name, value in given.items() if value is not None}}, processors=tuple(logits_processors))
        if type(max_new_tokens) is not int or max_new_tokens < 1:
            raise InputError(f"max_new_tokens is {max_new_tokens!r}, and has to be 1 or more")
        if not isinstance(state, State) or state._lm is not self:
            raise InputError("the state belongs to another model", remedy="make it with this model's new_state()")
        ids, counts = self._checked(state._lengths, ids, lengths)
        for row, (length, count) in enumerate(zip(state._lengths, counts)):
            if count < 1:
                raise InputError(f"row {row} has no ids to begin with")
            if length + count + max_new_tokens - 1 > self.max_length:
                raise InputError(f"sequence {row} has {length} tokens, and {count} ids with {max_new_tokens} new ones are over max_length, {self.max_length}")
        ends = Ends(self.stop if stop is None else stop, state.batch)
        draws = None if choice.temperature == 0 else Draws(_seeds(seed, state.batch))
        if draft_tokens is not None and (type(draft_tokens) is not int or draft_tokens < 1 or draft is None):
            raise InputError(f"draft_tokens is {draft_tokens!r}, and has to be 1 or more, with a draft")
        drafts = self._draft_of(draft, state, max(length + count for length, count in zip(state._lengths, counts)) + max_new_tokens - 1)
        most = draft_tokens or (PROMPT_TOKENS if isinstance(draft, str) else MODEL_TOKENS)
        if type(logprobs) is not int or not 0 <= logprobs <= self.vocabulary:
            raise InputError(f"logprobs is {logprobs!r}, and has to be 0 to {self.vocabulary}")
        guide = None if schema is None else self._guide_of(schema, state.batch, ends.single)
        return Generation(Task(self, state, ids, counts, max_new_tokens, choice, ends, draws, drafts, most, guide, self._weights_of(adapter), logprobs))

    def _advanced(self, state, ids, counts, logits="last", weights=None):
        with state.in_use():
            return self._take(Together([state]), ids, counts, logits, weights)

    def _guide_of(self, schema, batch, ends) -> Guide:
        schemas = schema if isinstance(schema, (list, tuple)) else [schema] * batch
        if len(schemas) != batch:
            raise InputError(f"schema is a list of {len(schemas)}, and the state has {batch} sequences")
        if self._words is None:
            self._words = Words(self.files.get("tokenizer.json"), self._logits[1], self.stop)
        return Guide(self._words, schemas, ends)

    def _draft_of(self, draft, state, needed) -> Draft | None:
        """needed: the most tokens that a sequence of this call will have."""
        if draft is None:
            return None
        if self.is_recurrent:
            raise InputError("the model has recurrent layers, which cannot forget a draft's wrong proposals", remedy="leave draft out")
        if isinstance(draft, str) and draft == "prompt":
            return OfPrompt(state.batch)
        of = draft._lm if isinstance(draft, State) else draft
        if not isinstance(of, LanguageModel):
            raise InputError(f'draft is {draft!r}, and has to be a LanguageModel, a State of one, or "prompt"')
        if of.is_recurrent:
            raise InputError("the draft has recurrent layers, which cannot forget wrong proposals", remedy="take another draft")
        if not _same_words(of, self):
            raise InputError(f"the draft has other tokens: a vocabulary of {of.vocabulary}, and the model one of {self.vocabulary}", remedy="take a draft of the same family, with the same tokenizer")
        begun = isinstance(draft, State)
        if begun and (draft is state or draft.lengths != state.lengths):
            raise InputError(f"the draft's state has {draft.lengths} tokens, and the state {state.lengths}", remedy="give the draft's state all that the state was given, or give the draft itself")
        if needed - (0 if begun else min(state.lengths)) > of.max_length:
            raise InputError(f"the sequences will have {needed} tokens, and the draft's max_length is {of.max_length}", remedy="compile the draft with a larger max_length")
        return OfModel(draft if begun else of.new_state(state.batch), self.vocabulary, keep=begun)

    # -- many callers

    def batcher(self, max_batch: int | None = None, max_tokens: int = 512, max_waiting: int = 1024) -> Batcher:
        """Runs the requests of many threads together, over one plan: see `Batcher`.

        max_batch: the most sequences of a step; None: the model's. max_tokens: the most tokens of prompts in a step, so that others do not wait for a long one. max_waiting: the most requests that
        wait to begin.

        Raises UnsupportedError if the model's caches are not in pages (on GPUs, and of models with recurrent layers).
        """
        return Batcher(self, max_batch, max_tokens, max_waiting)

    # -- adapters

    def add_lora(self, name: str, adapter: Any, *, scale: float = 1.0, config: Any = None) -> None:
        """Adds a LoRA adapter for calls that name it: `generate(adapter=name)`, `step(adapter=name)`. Other calls compute without it.

        adapter: a folder or a safetensors file of PEFT, a state dict, or {weight: (A, B, scale)} by the names of transformers' model. scale, config: as `Module.add_lora` takes them.

        The touched weights are there once more for each adapter, merged, from its first call on; those of the last few adapters are kept. Raises InputError for a name that is
        taken, unknown weights and shapes that do not fit; then nothing has changed.
        """
        self._known_adapters().add(name, adapter, scale, config, use=False)

    def remove_lora(self, name: str) -> None:
        """Removes an adapter and its weights. InputError if there is none of that name."""
        self._known_adapters().remove(name)

    def _known_adapters(self) -> Adapters:
        if self._adapters is None:
            self._adapters = Adapters(Inside(self.module._kind.lora_target(), "model."))
        return self._adapters

    def _weights_of(self, adapter: str | None):
        return None if adapter is None else self._known_adapters().weights_of(adapter)[0]

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


def _same_words(a: LanguageModel, b: LanguageModel) -> bool:
    """Whether two models have one vocabulary. Those of a family may fill it up to other sizes."""
    files = [of.files.get("tokenizer.json") for of in (a, b)]
    if None in files:
        return a.vocabulary == b.vocabulary
    return files[0] == files[1] or json.loads(files[0])["model"].get("vocab") == json.loads(files[1])["model"].get("vocab")
