"""ingot's errors under the types that scripts catch."""

from __future__ import annotations

from ..errors import InputError, UnsupportedError


class CallError(InputError, AssertionError):
    """An entry point was called with arguments that exclude one another, or without inputs."""


class UnsupportedOperatorException(UnsupportedError, RuntimeError):
    """An operator has no engine, but the whole graph has to be one engine."""


class PartialCompilationError(UnsupportedError, AssertionError):
    """`require_full_compilation` is set and a part of the model would run in torch."""


class BindingNameMismatchError(InputError):
    """Names of bindings that do not fit the program's inputs or results."""


def refusal(what: str, why: str, remedy: str = "") -> UnsupportedError:
    return UnsupportedError(f"torch_tensorrt.{what} is refused: {why}", remedy=remedy)
