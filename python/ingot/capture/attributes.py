"""Changes that forward makes to its modules while it is traced: numbers, which a captured graph would lose, and tensors, whose values are restored."""

from __future__ import annotations

import torch

from ..errors import UnsupportedError
from ..torch_internals.modules import setting_attributes_by
from ..torch_internals.operators import OpOverload, schema_of
from ..torch_internals.tensors import FakeTensor, TorchDispatchMode, without_modes


class WritesUndone(TorchDispatchMode):
    """Restores values of tensors. Without strict, torch.export really writes numbers to tensors that are neither parameters nor buffers (`cache.length.add_(1)`)."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []

    @classmethod
    def ignore_compile_internals(cls):
        return True  # nothing of what torch compiles is for this mode

    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        keywords = keywords or {}
        schema = schema_of(operator) if isinstance(operator, OpOverload) else None  # none of an operator with regions
        for i, argument in enumerate(schema.arguments if schema is not None and schema.is_mutable else ()):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = arguments[i] if i < len(arguments) else keywords.get(argument.name)
                for tensor in given if isinstance(given, (list, tuple)) else [given]:
                    if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor):
                        with without_modes():  # one of which makes fakes
                            self.before.append((tensor, tensor.detach().clone()))
        return operator(*arguments, **keywords)

    def __exit__(self, *problem):
        super().__exit__(*problem)
        for tensor, value in reversed(self.before):
            tensor.detach().copy_(value)


class AttributeWatch:
    """Notices numbers that forward changes on its modules. torch.export silently restores them and makes constants of them.

    A number that ends as it began counts within the call. A second trace starts with the values that the first one left. A number that it leaves alone is a cache
    (the longest sequence so far). A number that it changes is state, which the graph would lose. For one thread at a time (tracing.py).
    """

    def __init__(self, module, start=None):
        self.module, self.start, self.changed, self._before = module, start or {}, {}, {}
        self.modules = {id(m) for m in module.modules()}

    def __enter__(self):
        self._active = self._watching()  # a generator: it tidies up wherever an interrupt comes
        return next(self._active)

    def __exit__(self, *_):
        self._active.close()

    def _watching(self):
        old = {(m, name): vars(m)[name] for m, name in self.start}

        def noting(set_attribute):
            def note(m, name, value):
                have = vars(m).get(name)
                if id(m) in self.modules and isinstance(have, (int, float)) and isinstance(value, (int, float)) and have != value:
                    self._before.setdefault((m, name), have)
                    self.changed[m, name] = value
                set_attribute(m, name, value)

            return note

        try:
            for (m, name), value in self.start.items():
                vars(m)[name] = value
            with setting_attributes_by(noting):
                yield self
        finally:
            self.changed = {place: value for place, value in self.changed.items() if value != self._before[place]}
            for (m, name), value in old.items():
                vars(m)[name] = value

    def again(self):
        return AttributeWatch(self.module, self.changed)

    def refuse_changes(self):
        for owner, name in self.changed:
            path = next((p for p, m in self.module.named_modules() if m is owner), "")
            value = vars(owner)[name]
            raise UnsupportedError(
                f"forward changes the number {f'{path}.{name}' if path else name!r} with each call, which a captured graph cannot do",
                remedy=f'keep it in a buffer: self.register_buffer("{name}", torch.tensor({value!r}))',
            )
