"""Dynamo: its lock, its errors, and what it makes of functions and layers."""

from __future__ import annotations

import functools
import threading

import torch
from torch._dynamo import config, convert_frame
from torch._dynamo.exc import UserError  # what torch.export raises of the user's inputs


def lock() -> threading.RLock:
    """The lock that Dynamo holds while it traces: one thread alone traces, for torch.compile too."""
    return convert_frame.compile_lock


def renew_lock():
    """PATCH convert_frame.compile_lock: a new one, in a child of fork() in which the thread that held it does not exist."""
    convert_frame.compile_lock = threading.RLock()


def know_functions():
    """Fills Dynamo's table of the functions that it knows by identity, before one of them is patched: filled later, it would know the patch, and break graphs at the function for the rest of the process."""
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    TorchInGraphFunctionVariable._get_handlers()


def allowing_recurrent_layers():
    """A context in which Dynamo takes nn.LSTM, nn.GRU and nn.RNN."""
    return config.patch(allow_rnn=True)


def inline_by(code_of):
    """PATCH InliningInstructionTranslator.build_inline_tracer: code_of(Dynamo's OutputGraph, function) may give other code for a function that Dynamo inlines, or None."""
    from torch._dynamo.symbolic_convert import InliningInstructionTranslator

    build = InliningInstructionTranslator.build_inline_tracer

    @functools.wraps(build)
    def built(parent, function, *more, **named):
        if (code := code_of(parent.output, function)) is not None:
            function.get_code = lambda: code
        return build(parent, function, *more, **named)

    InliningInstructionTranslator.build_inline_tracer = staticmethod(built)


def broken_code():
    """For `inline_by`: Dynamo breaks its graph at the call, and the function runs as it is. For functions of at most four parameters whose module knows `torch`."""

    def broken(a=None, b=None, c=None, d=None):
        torch._dynamo.graph_break()

    return broken.__code__


def call_functions_by(other_of):
    """PATCH TorchInGraphFunctionVariable.call_function: other_of(Dynamo's OutputGraph, a function of torch) may give a function in Python, which Dynamo traces instead where an open size is
    among the arguments, or None. What that function's file calls is torch's own."""
    from torch._dynamo.variables import SymNodeVariable, UserFunctionVariable
    from torch._dynamo.variables.lists import BaseListVariable
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    call = TorchInGraphFunctionVariable.call_function

    def has_size(value):
        return isinstance(value, SymNodeVariable) or isinstance(value, BaseListVariable) and any(map(has_size, value.items))

    @functools.wraps(call)
    def called(self, tx, args, kwargs):
        other = other_of(tx.output, self.value)
        if other is None or tx.f_code.co_filename == other.__code__.co_filename or not any(map(has_size, (*args, *kwargs.values()))):
            return call(self, tx, args, kwargs)
        return tx.inline_user_function_return(UserFunctionVariable(other), args, kwargs)

    TorchInGraphFunctionVariable.call_function = called


def wrap_modules_by(make):
    """PATCH VariableBuilder.wrap_module, which Dynamo calls for each module that a model uses: make(the original) is called instead."""
    from torch._dynamo.variables.builder import VariableBuilder

    VariableBuilder.wrap_module = functools.wraps(VariableBuilder.wrap_module)(make(VariableBuilder.wrap_module))


def is_compiled(module) -> bool:
    """Whether it is what torch.compile gives for a module."""
    from torch._dynamo.eval_frame import OptimizedModule

    return isinstance(module, OptimizedModule)


def register_backend(function, name: str):
    """Makes a backend known to torch.compile, unless one has the name."""
    from torch._dynamo.backends import registry

    if name not in registry.list_backends(exclude_tags=()):
        registry.register_backend(function, name=name)
