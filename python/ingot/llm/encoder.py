"""`ingot.llm.compile_encoder` and the `Encoder` that it returns: one vector for each text."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..ahead_of_time import compile_with_record
from ..errors import FormatError, InputError, UnsupportedError
from ..inputs import Input
from ..module.module import Module
from . import folder
from .tokens import tokenizer_of

RECORD = "encoder"  # the part of a plan's signature that `Encoder` reads
POOLINGS = ("mean", "cls", "last")


def compile_encoder(
    model: torch.nn.Module | str | os.PathLike[str],
    *,
    max_length: int,
    max_batch: int = 32,
    pooling: str | None = None,
    normalize: bool | None = None,
    dtype: torch.dtype | str = "auto",
    weight_dtype: str | None = None,
    target: Any = "auto",
    **option: Any,
) -> Encoder:
    """Compiles a model of transformers that gives a vector for each token, with the pooling over them: one plan from ids to embeddings.

    Arguments:
        model: a model object (`AutoModel`), or a folder of transformers or sentence-transformers, with *.safetensors. Of a folder nothing is executed, and the tokenizer's files come along.
        max_length: the most tokens of a text.
        max_batch: the most texts of a run; `embed` takes any number.
        pooling: "mean": over the tokens that count. "cls": the first token's vector. "last": the last one's. None: what a folder of sentence-transformers says, else "mean".
        normalize: whether vectors get length 1. None: what a folder of sentence-transformers says, else False.
        dtype, weight_dtype, target, **option: as `ingot.llm.compile` takes them.

    Raises InputError for wrong sizes and folders, OptionError for other wrong choices, UnsupportedError for a model without last_hidden_state, a folder with other parts than a pooling and a
    normalisation, or an operator without an engine.
    """
    says = _of_sentence_transformers(Path(model)) if isinstance(model, (str, os.PathLike)) else {}
    model, files = folder.given(model, dtype, "AutoModel")
    pooling = says.get("pooling", "mean") if pooling is None else pooling
    normalize = says.get("normalize", False) if normalize is None else normalize
    for name, value in (("max_length", max_length), ("max_batch", max_batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name} is {value!r}, and has to be 1 or more")
    if pooling not in POOLINGS:
        raise InputError(f"pooling is {pooling!r}, and has to be one of {', '.join(POOLINGS)}")
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise InputError(f"a {type(model).__name__} is no model of transformers", remedy="give a model of transformers (AutoModel) or its folder")
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{type(model).__name__} has an encoder and a decoder", remedy="give its encoder (model.get_encoder())")
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and max_length > positions:
        raise InputError(f"max_length is {max_length}, and the model has positions for {positions} tokens")
    step = _Pooled(model, pooling, bool(normalize))
    step.training = model.training
    options = {"fallback": "error", "target": target, **option} | ({} if weight_dtype is None else {"weight_dtype": weight_dtype})
    record = {"max_length": max_length, "max_batch": max_batch, "vocabulary": model.get_input_embeddings().weight.shape[0], "pooling": pooling, "normalize": bool(normalize),
              "files": {name: data.decode() for name, data in files.items()}}  # fmt: skip
    inputs = [
        Input(min_shape=(1, 1), opt_shape=(1, min(32, max_length)), max_shape=(max_batch, max_length), dtype=torch.int64, name=name, shared_dims={0: "batch", 1: "tokens"})
        for name in ("ids", "mask")
    ]
    return Encoder(compile_with_record(step, inputs, {RECORD: record}, options))


class _Pooled(torch.nn.Module):
    def __init__(self, model, pooling: str, normalize: bool):
        super().__init__()
        self.model, self._pooling, self._normalize = model, pooling, normalize

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        if self._pooling == "mean":
            counts = mask[..., None].to(hidden.dtype)
            pooled = (hidden * counts).sum(1) / counts.sum(1)
        elif self._pooling == "cls":
            pooled = hidden[:, 0]
        else:
            pooled = hidden[torch.arange(ids.shape[0], device=ids.device), mask.sum(1) - 1]
        return torch.nn.functional.normalize(pooled, dim=-1) if self._normalize else pooled


def _of_sentence_transformers(where: Path) -> dict[str, Any]:
    """What a folder of sentence-transformers says of pooling and length; nothing for another folder."""
    parts = _json(where / "modules.json") or []
    found: dict[str, Any] = {"normalize": False} if parts else {}
    for part in parts:
        kind = str(part.get("type", "")).rpartition(".")[2]
        if kind == "Transformer" and not part.get("path"):
            if (_json(where / "sentence_bert_config.json") or {}).get("do_lower_case"):
                raise UnsupportedError(f"{where} wants texts in small letters (do_lower_case), outside of the tokenizer", remedy="put a Lowercase normaliser into tokenizer.json")
        elif kind == "Pooling":
            found["pooling"] = _pooling_of(where, _json(where / part["path"] / "config.json") or {})
        elif kind == "Normalize":
            found["normalize"] = True
        else:
            raise UnsupportedError(f"{where} has a part {kind} at {part.get('path')!r}", remedy="a transformer at the top, a pooling and a normalisation are taken")
    if (_json(where / "config_sentence_transformers.json") or {}).get("default_prompt_name"):
        raise UnsupportedError(f"{where} puts a prompt before each text by itself (default_prompt_name)", remedy="remove default_prompt_name, and give texts with the prompt")
    return found


def _pooling_of(where: Path, given: dict[str, Any]) -> str:
    """Of new files `pooling_mode`, of old ones a switch for each kind."""
    old = [name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens") for name, value in given.items() if name.startswith("pooling_mode_") and value is True]
    chosen = given.get("pooling_mode", old[0] if len(old) == 1 else old)
    name = {"lasttoken": "last"}.get(chosen, chosen) if isinstance(chosen, str) else chosen
    if name not in POOLINGS:
        raise UnsupportedError(f"{where} pools by {chosen!r}", remedy=f"one of {', '.join(POOLINGS)} is taken: compile_encoder(.., pooling=..)")
    return name


def _json(path: Path):
    try:
        return json.loads(path.read_text()) if path.is_file() else None
    except ValueError as problem:
        raise FormatError(f"{path} is no JSON: {problem}") from None


class Encoder:
    """A compiled encoder. `ingot.llm.compile_encoder` and `ingot.llm.load_encoder` return one. Threads share it.

    Attributes:
        max_length: the most tokens of a text.
        max_batch: the most texts of a run.
        vocabulary: how many ids there are.
        width: how many numbers a vector has.
        pooling, normalize: how vectors of tokens become one.
        device: where it runs, and where vectors are.
        files: the files of the tokenizer, by name; empty if the model came without a folder.
        module: the ingot.Module, with its report and its engine.
    """

    def __init__(self, module: Module):
        self.module = module
        record = module.engine.signature[RECORD]
        self.max_length, self.max_batch, self.vocabulary = record["max_length"], record["max_batch"], record["vocabulary"]
        self.pooling, self.normalize, self.files = record["pooling"], record["normalize"], dict(record["files"])
        self.width = int(module.engine.outputs()[0]["dims"][-1])
        self.device = torch.device(module.engine.device) if module.engine.device is not None else None
        self._tokenizer: Any = None

    def ids_of(self, text: str | Sequence[int]) -> list[int]:
        """The ids of a text, with the tokenizer's special tokens; a list of ids is checked. Raises InputError for none, for ids outside of the vocabulary and for more than max_length."""
        if isinstance(text, str):
            if self._tokenizer is None:
                self._tokenizer = tokenizer_of(self.files, "give ids")
            ids = self._tokenizer.encode(text).ids
        else:
            ids = [int(n) for n in text]
        if not 1 <= len(ids) <= self.max_length:
            raise InputError(f"a text has {len(ids)} tokens, and the encoder takes 1 to {self.max_length}", remedy="ingot.llm.compile_encoder(.., max_length=..), or a shorter text")
        if wrong := [n for n in ids if not 0 <= n < self.vocabulary]:
            raise InputError(f"id {wrong[0]} is outside of the vocabulary, 0 to {self.vocabulary - 1}")
        return ids

    def embed(self, texts: Sequence[str | Sequence[int]]) -> torch.Tensor:
        """A vector for each text: float32 [texts, width].

        texts: texts, or lists of ids. Those of like lengths run together, max_batch at a time; which ones do changes a vector by no more than rounding.

        Raises InputError as `ids_of` does, and for a text that stands alone instead of in a list.
        """
        if isinstance(texts, str):
            raise InputError("texts is one text, and has to be a list of them")
        every = [self.ids_of(text) for text in texts]
        made = torch.empty(len(every), self.width, device=self.device)
        order = sorted(range(len(every)), key=lambda n: len(every[n]))
        for at in range(0, len(order), self.max_batch):
            chosen = order[at : at + self.max_batch]
            ids = torch.zeros(len(chosen), len(every[chosen[-1]]), dtype=torch.int64)
            mask = torch.zeros_like(ids)
            for row, n in enumerate(chosen):
                ids[row, : len(every[n])], mask[row, : len(every[n])] = torch.tensor(every[n]), 1
            made[chosen] = self.module(ids.to(self.device), mask.to(self.device))
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the encoder to a .ingot file for `ingot.llm.load_encoder`, with its tokenizer. Atomic."""
        from ..files import save

        save(self.module, path, format="ingot")

    def __repr__(self):
        return f"Encoder(max_length={self.max_length}, max_batch={self.max_batch}, width={self.width}, pooling={self.pooling!r}, normalize={self.normalize}, device={self.device})"
