"""Language models: compile one of transformers, give it tokens, keep its state. docs/llm.md shows it.

`compile` needs transformers; `load` and what it returns do not.
"""

from .batcher import Batcher, Request
from .encoder import Encoder, compile_encoder
from .files import load, load_encoder
from .generation import Generation, LogProbs
from .model import LanguageModel, compile
from .state import State

__all__ = ["Batcher", "Encoder", "Generation", "LanguageModel", "LogProbs", "Request", "State", "compile", "compile_encoder", "load", "load_encoder"]
