"""Which of Dynamo's traces are for a backend of ingot's. `backend_ctx_ctor`, which Dynamo has for settings of a backend, is not asked by `torch.compile`."""

from __future__ import annotations

_INSIDE = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__", "func")  # what Dynamo, torch.compile, functools.wraps and functools.partial call the function inside
_backends = []


def register(backend):
    _backends.append(backend)


def is_own(output) -> bool:
    """output: Dynamo's OutputGraph of the trace."""
    function = output.compiler_fn
    while (inside := next((getattr(function, name) for name in _INSIDE if hasattr(function, name)), None)) is not None:
        function = inside
    return any(function is backend for backend in _backends)
