"""What torch's saved programs and scripts take: its verifier, its reader, its converter. Imported only where they are needed."""

from __future__ import annotations

import contextlib
import types

import torch


def verifier() -> type:
    """The verifier of programs that may hold any operator: a saved program has calls of engines."""
    from torch._export.verifier import TrainingIRVerifier

    return TrainingIRVerifier


def archive_reader(file):
    """torch's reader of its archives, of an open file."""
    return torch._C.PyTorchFileReader(file)


def read_archive(file):
    """What one of torch's archives holds, of an open file: its programs by name."""
    from torch.export.pt2_archive._package import load_pt2

    return load_pt2(file)


def script_graph(script: torch.jit.ScriptModule, args: tuple) -> torch.fx.GraphModule:
    """A ScriptModule as a graph: the work of torch's converter to exported programs before it exports, where it would assume that no size is 0 or 1."""
    from torch._export.converter import TS2EPConverter

    class Converter(TS2EPConverter):
        def retrace_as_exported_program(self, graph, constants):
            for name in {n for n, _ in graph.named_buffers()} & constants.keys():  # they are not in the script's state
                owner, _, leaf = name.rpartition(".")
                graph.get_submodule(owner).register_buffer(leaf, constants[name], persistent=False)
            self.graph = graph
            return types.SimpleNamespace(state_dict=self.ts_model.state_dict())

    converter = Converter(script, args)
    converter.convert()
    return converter.graph


@contextlib.contextmanager
def untraced():
    """What runs inside is not part of what torch.jit.trace records."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


def kept_script_function(name: str, graph):
    """A script's function of this graph that torch keeps for the life of the process, with a number after its name: a trace refers to its functions, but does not keep them."""
    return torch.jit._state._python_cu.create_function(name, graph, True)
