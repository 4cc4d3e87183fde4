"""ingot as an export format of transformers, and language models of that format with transformers' `generate`. Importing this module registers the format "ingot".

    exported = IngotExporter().export(model, inputs, IngotConfig(dynamic=True))                          # any model: a plan that is called like it
    exported = IngotExporter().export_for_generation(model, {}, IngotConfig(max_length=4096))            # a causal language model, by ingot.llm
    exported.save_pretrained("folder")
    model = IngotModelForCausalLM.from_pretrained("folder")                                              # pipelines, streamers, beams, assistants
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

try:
    from transformers.exporters import DynamoConfig, DynamoExporter, ExportedComponent, ExportedModel, ExportMetadata, ModelRunner, register_backend
except ImportError:
    raise ImportError(f"ingot.llm.hugging_face needs transformers.exporters of transformers 5.23 or later, and this is {transformers.__version__}: pip install -U transformers") from None

from .. import ahead_of_time, files
from ..errors import InputError, OptionError
from ..module.module import Module
from .model import RECORD, LanguageModel, compile
from .state import State

FORMAT = "ingot"
GENERATES = "ingot.llm"  # in the metadata of a program for generation: who runs it


@dataclass
class IngotConfig(DynamoConfig):
    """How a model is exported to a plan.

    dynamic, strict, dynamic_shapes: as in transformers' DynamoConfig, for `export`.
    max_length, max_batch, dtype: as in `ingot.llm.compile`, for `export_for_generation`.
    options: further options of ingot, by name (docs/options.md): {"weight_dtype": "int8", "target": "cuda:sm_90"}.
    """

    export_format: str = FORMAT
    max_length: int | None = None
    max_batch: int = 1
    dtype: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)


class IngotExporter(DynamoExporter):
    """Exports models of transformers to plans, one `.ingot` file each."""

    export_format = FORMAT
    config_class = IngotConfig
    program_suffix = ".ingot"
    tested_versions = {"torch": "2.13.0"}

    def export_program(self, model, sample_inputs, config):
        """One forward of any model. Returns (ingot.Module, metadata)."""
        program, metadata = super().export_program(model, sample_inputs, config)
        return ahead_of_time.compile(program, options=config.options), metadata

    def export_for_generation(self, model, sample_inputs, config, *, generation_config=None, multi_token_decode=False):
        """A causal language model as one component, "model", that takes prompts, parts of prompts and single tokens: what `ingot.llm.compile` makes. sample_inputs and
        multi_token_decode are not needed. UnsupportedError for models that it does not take: `export` gives one forward of those."""
        config = IngotConfig(**config) if isinstance(config, dict) else config
        if not isinstance(config, IngotConfig):
            raise InputError(f"config is of type {type(config).__name__}", remedy="give an IngotConfig")
        if config.max_length is None:
            raise OptionError("config has no max_length, the most tokens of a sequence", remedy="IngotConfig(max_length=..)")
        lm = compile(model, max_length=config.max_length, max_batch=config.max_batch, dtype=config.dtype, **config.options)
        metadata = ExportMetadata(
            architecture=type(model).__name__,
            packages={"transformers": transformers.__version__},
            export_config={GENERATES: True, "max_length": lm.max_length, "max_batch": lm.max_batch},
            export_dtype=str(lm._logits[0]).removeprefix("torch."),
            export_device=str(lm.device),
            kwargs={name: {} for name in ("input_ids", "attention_mask", "position_ids", "past_key_values", "logits_to_keep", "use_cache")},
        )
        return ExportedModel({"model": ExportedComponent(lm, metadata)}, FORMAT, config=model.config, generation_config=generation_config or model.generation_config)

    @classmethod
    def save_program(cls, program, path):
        if isinstance(program, _File):
            shutil.copyfile(program.path, path)
        elif isinstance(program, LanguageModel):
            program.save(path)
        else:
            files.save(program, path, format="ingot")

    @classmethod
    def load_program(cls, path):
        return _File(Path(path))


@dataclass
class _File:
    """A plan that is not loaded yet, because the runner says for which device."""

    path: Path

    def load(self, device) -> Module | LanguageModel:
        module = files.load(self.path, format="ingot", **({} if device is None else {"device": str(device)}))
        return LanguageModel(module) if RECORD in module.engine.signature else module


class IngotRunner(ModelRunner):
    """Runs a plan as transformers calls the model that it was made of."""

    def __init__(self, program, metadata):
        self.program, self.metadata = program, metadata

    @classmethod
    def from_program(cls, program, metadata, device=None):
        """device: None for the plan's first target. A program that was not saved runs where it was compiled for."""
        if isinstance(program, _File):
            program = program.load(device)
        made = cls(program, metadata)
        _refuse_device(made.device, device)
        return made

    @property
    def device(self) -> torch.device:
        return self.program.device if isinstance(self.program, LanguageModel) else torch.device(self.program.engine.device)

    def __call__(self, share_inputs: bool = True, share_outputs: bool = False, **kwargs):
        """share_inputs, share_outputs: ignored. Inputs are always read in place; outputs are the caller's."""
        if isinstance(self.program, LanguageModel):
            return forward(self.program, **kwargs)
        given = {**self.metadata.in_constants, **kwargs}
        return self.program(**{name: given[name] for name in self.metadata.kwargs if name in given})


register_backend(IngotExporter, IngotRunner)
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[FORMAT] = "IngotModelForCausalLM"  # the names of classes with which a pipeline for text begins without a word; no configuration has this model type


def _refuse_device(own, wanted):
    if wanted is not None and (torch.device(wanted).type != own.type or torch.device(wanted).index not in (None, own.index or 0)):
        raise InputError(f"the plan runs on {own}, and is wanted on {wanted}", remedy='save_pretrained, then from_pretrained(folder, device=..); compile for it with options={"target": ..}')


class StateCache(Cache):
    """A state of a language model in the form of transformers' caches, for its `generate`. Padding takes no place in it.

    state: an `ingot.llm.State`. columns: how many tokens of each row were given, padding counted.
    """

    def __init__(self, state: State):
        super().__init__(layers=[])
        self.state, self.columns = state, max(state.lengths)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.columns

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return self.state._lm.max_length

    def has_previous_state(self, layer_idx=None, state_idx=None) -> bool:
        return self.columns > 0

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_croppable(self) -> bool:
        return not self.state._lm.is_recurrent

    @property
    def max_batch_size(self) -> int:
        return self.state.batch

    def activate_past_recording(self):
        if not self.is_croppable:
            raise InputError("the model has recurrent layers, which cannot forget an assistant's wrong tokens", remedy="generate without an assistant")

    def crop(self, max_length: int):
        """Keeps so many columns; a negative number drops so many."""
        extra = -max_length if max_length <= 0 else self.columns - max_length
        if extra > 0:
            self.state.rewind(extra)
            self.columns -= extra

    def reorder_cache(self, beam_idx: torch.Tensor):
        """Row n becomes what row beam_idx[n] was."""
        self.state.reorder(beam_idx.tolist())

    def reset(self):
        self.state.reset()
        self.columns = 0

    def __len__(self):
        return 0

    def __repr__(self):
        return f"StateCache({self.state})"


def forward(lm: LanguageModel, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, logits_to_keep: int = 0, use_cache=None, return_dict=True, **others):
    """The forward of a causal language model of transformers, over a LanguageModel.

    input_ids: int64 [batch, tokens]. attention_mask: [batch, columns so far and tokens], zeros for padding, on any side. position_ids: must be those that follow from the mask.
    past_key_values: a StateCache, written. None begins anew. logits_to_keep: how many of the last columns have logits; 0 for all.
    Returns CausalLMOutputWithPast with logits [batch, columns, vocabulary], whose values at padding mean nothing.
    """
    wrong = [name for name, value in others.items() if value is not None and value is not False]
    if wrong or input_ids is None:
        raise InputError(f"the plan does not take {wrong[0]}" if wrong else "input_ids are missing", remedy="it takes input_ids, attention_mask, position_ids, past_key_values and logits_to_keep")
    if past_key_values is not None and (not isinstance(past_key_values, StateCache) or past_key_values.state._lm is not lm):
        raise InputError(f"past_key_values is a {type(past_key_values).__name__} that the plan does not know", remedy="leave it out, or give what this model returned")
    cache = StateCache(lm.new_state(input_ids.shape[0])) if past_key_values is None else past_key_values
    tokens = input_ids.shape[1]
    if attention_mask is not None and list(attention_mask.shape) != [input_ids.shape[0], cache.columns + tokens]:
        raise InputError(f"attention_mask is {list(attention_mask.shape)}, and has to be {[input_ids.shape[0], cache.columns + tokens]}: the columns so far and the new ones")
    counts = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask[:, cache.columns :].bool()
    places = counts.cumsum(1) - 1
    if position_ids is not None:
        due = torch.tensor(cache.state.lengths, device=places.device)[:, None] + places
        if not torch.equal(due[counts], position_ids.expand_as(input_ids)[counts].to(due)):
            raise InputError("position_ids are not those that follow from attention_mask", remedy="leave them out")
    lengths = counts.sum(1)
    left = input_ids.gather(1, (~counts).to(torch.int8).argsort(dim=1, stable=True))  # ids that count stand first in a LanguageModel's rows
    if logits_to_keep == 1 and bool(counts[:, -1].all()):
        logits = lm.step(cache.state, left, lengths)[:, None]
    else:
        every = lm.step(cache.state, left, lengths, logits="all")
        kept = places[:, -logits_to_keep if logits_to_keep else 0 :].clamp(min=0).to(every.device)
        logits = every[torch.arange(kept.shape[0], device=every.device)[:, None], kept]
    cache.columns += tokens
    made = CausalLMOutputWithPast(logits=logits, past_key_values=None if use_cache is False else cache)
    return made if return_dict else made.to_tuple()


class IngotModelForCausalLM(transformers.GenerationMixin):
    """A compiled causal language model with transformers' `generate`: for `pipeline("text-generation", model=.., tokenizer=..)`, streamers, beams, assistants and stopping criteria.

    `ingot.llm.LanguageModel.generate` is faster: this one leaves choosing tokens to transformers. A state holds as many rows as beams and returned sequences need: compile with such a
    max_batch.

    Attributes:
        lm: the LanguageModel.
        config, generation_config, device, dtype: as of a model of transformers.
    """

    main_input_name = "input_ids"
    input_modalities = ("text",)
    base_model_prefix = "model"
    _is_stateful = False

    def __init__(self, exported: ExportedModel):
        """exported: what `IngotExporter.export_for_generation` made."""
        runner = exported.runners.get("model")
        if not isinstance(runner, IngotRunner) or not isinstance(runner.program, LanguageModel):
            raise InputError(f"{exported} is not a language model for generation", remedy="IngotExporter().export_for_generation(model, {}, IngotConfig(max_length=..)) makes one")
        self.exported, self.lm = exported, runner.program
        self.config, self.device, self.dtype = exported.config, runner.device, runner.dtype
        self.generation_config = exported.generation_config or transformers.GenerationConfig.from_model_config(exported.config)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device=None, **how) -> IngotModelForCausalLM:
        """Reads what `save_pretrained` wrote, here or of an ExportedModel. **how: as ExportedModel.from_pretrained takes it."""
        return cls(ExportedModel.from_pretrained(folder, device=device, **how))

    def save_pretrained(self, folder: str | os.PathLike[str], **how) -> None:
        self.exported.save_pretrained(Path(folder), **how)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, logits_to_keep=0, use_cache=None, return_dict=True, **others):
        """See `forward` of this module."""
        return forward(self.lm, input_ids, attention_mask, position_ids, past_key_values, logits_to_keep, use_cache, return_dict, **others)

    __call__ = forward

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, generation_mode, batch_size, max_cache_length):
        if generation_config.cache_implementation not in (None, "dynamic"):
            raise InputError(f"cache_implementation is {generation_config.cache_implementation!r}, and the plan has a cache of its own", remedy="leave it out")
        if model_kwargs.get("past_key_values") is None and generation_config.use_cache is not False:
            rows = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1) * batch_size
            model_kwargs["past_key_values"] = StateCache(self.lm.new_state(rows))

    def can_generate(self) -> bool:
        return True

    def is_remote_code(self) -> bool:
        return False

    def get_experts_implementation(self) -> dict:
        return {}

    def to(self, device=None, *args, **kwargs) -> IngotModelForCausalLM:
        _refuse_device(self.device, device)
        return self

    def eval(self) -> IngotModelForCausalLM:
        return self
