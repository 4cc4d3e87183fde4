"""The GraphModule of a compiled model."""

from __future__ import annotations

import inspect
import operator

import torch

from ...errors import UnsupportedError
from ...module.module import Module
from ...running.runners import TorchGraph
from ...torch_internals.codegen import PyTreeCodeGen, PyTreeInfo
from ...torch_internals.sizes import free_unbacked_symbols
from .. import _torchscript
from .._profiles import Profiles
from ..runtime import _modes
from .runtime._TorchTensorRTModule import TorchTensorRTModule, profiled


class CompiledModule(torch.fx.GraphModule):
    """A compiled model: a torch.fx.GraphModule of engines (children `_run_on_acc_0`, ...) and what torch runs between them.

    Calls have the model's arguments and results. They go through the `ingot.Module` in `ingot_module`, which checks them and follows the model's weights. If the graph is edited and
    recompiled, calls run the edited graph with the weights of that moment. `report` is the `ingot.Report`, `profiles` are those of the inputs, and build_again(program) compiles another
    program with the same inputs and settings.
    """

    def __init__(self, root, graph, module: Module, profiles: Profiles, build_again):
        self.__dict__.update(ingot_module=module, profiles=profiles, build_again=build_again)  # not among the children, because they are not part of the graph
        super().__init__(root, graph, "CompiledModule")
        run, of_graph = module.__call__, type(self).forward
        from_data = self.__dict__["reads_sizes_from_data"] = _reads_sizes_from_data(self, module)

        def forward(self, *args, **kwargs):
            if torch.jit.is_tracing():
                return _torchscript.traced(module._kind, args, kwargs)
            _modes.check(from_data)
            if profiles.auto:
                profiles.choose(args, kwargs)
            if profiled and not profiled.isdisjoint(self.children()):
                module._kind.follow()
                self._take_weights()
                return of_graph(self, *args, **kwargs)  # calls the engine modules, which write profiles
            return run(*args, **kwargs)

        forward.__signature__ = inspect.signature(of_graph)  # the model's own parameter names, with which torch.export matches dynamic_shapes
        type(self).forward = forward

    @property
    def report(self):
        return self.ingot_module.report

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["ingot_module"], name)  # the buffers that calls write

    def recompile(self):
        self._take_weights()
        return super().recompile()

    def _take_weights(self):
        """Gives the graph the tensors that the module runs with now."""
        way = self.ingot_module._kind.way
        if isinstance(way, TorchGraph):
            for name in way.graph.ingot_weights.values():
                setattr(self, name, getattr(way.graph, name))

    def _apply(self, fn, recurse=True):
        self.ingot_module._apply(fn)  # refuses other devices and types
        return self

    def save(self, path, _extra_files=None):
        """What torch.jit.save calls for a path."""
        self._script().save(path, _extra_files=_extra_files or {})

    def save_to_buffer(self, _extra_files=None):
        """What torch.jit.save calls for an open file."""
        return self._script().save_to_buffer(_extra_files=_extra_files or {})

    def __prepare_scriptable__(self):
        raise UnsupportedError("torch.jit.script cannot see into a compiled module", remedy='torch_tensorrt.save(module, path, output_format="torchscript"), or torch.jit.trace')

    def _script(self):
        return _torchscript.script_module(self.ingot_module._kind.program(empty_lists=True))

    def __deepcopy__(self, memo):
        return self.ingot_module.__reduce_ex__(2)  # raises the error that says what to do instead

    def __reduce_ex__(self, protocol):
        return self.ingot_module.__reduce_ex__(protocol)


def graph_module(module: Module, settings, profiles: Profiles, build_again) -> torch.fx.GraphModule:
    """The CompiledModule of an ingot.Module that was made from a model or a program. If torch runs the whole program, that program's module."""
    runnable = getattr(module._kind, "runnable", None)
    if runnable is None:
        made = module._kind._function
        made.__dict__.update(ingot_module=module, report=module.report, profiles=profiles, build_again=build_again)
        return made
    root, graph = (_of_torch_graph if isinstance(runnable.way, TorchGraph) else _of_one_call)(module._kind, settings, profiles)
    call = runnable.functional.program.call_spec
    positional, keywords = call.in_spec.children()
    known = [parameter["name"] for parameter, _ in module._kind.form.arguments.by_position]
    names = [known[i] if i < len(known) and known[i] else f"arg_{i}" for i in range(positional.num_children)]
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo([*names, *keywords.context], call.in_spec, call.out_spec)))
    return CompiledModule(root, graph, module, profiles, build_again)


def _reads_sizes_from_data(compiled, module) -> bool:
    """Whether an engine reads sizes from data, or a value between engines has such a size."""
    if any(child.requires_output_allocator for child in compiled.children() if isinstance(child, TorchTensorRTModule)):
        return True
    values = [node.meta.get("val") for node in module._kind.runnable.functional.module.graph.nodes]
    return any(free_unbacked_symbols(size) for v in values if isinstance(v, torch.Tensor) for size in v.shape if isinstance(size, torch.SymInt))


def _numbered(source, segments) -> dict[str, str]:
    """Names of the segments in a graph. The part that torch runs between two segments counts as a submodule too, as upstream numbers them."""
    names, number, torch_runs = {}, 0, False
    for node in source.graph.nodes:
        if node.op == "call_module" and getattr(source, node.target) in segments:
            number += torch_runs
            names[node.target], torch_runs = f"_run_on_acc_{number}", False
            number += 1
        elif node.op.startswith("call_") and node.target is not operator.getitem:
            torch_runs = True
    return names


def _of_torch_graph(kind, settings, profiles):
    """Engines among torch's operators: the graph that runs, with engine modules for its segments."""
    source, root, graph, env = kind.runnable.way.graph, torch.nn.Module(), torch.fx.Graph(), {}
    segments, single = _numbered(source, kind.runnable.way.segments), set()
    for node in source.graph.nodes:
        if node.op == "get_attr":
            value = getattr(source, node.target)
            root.register_buffer(node.target, value, persistent=False) if isinstance(value, torch.Tensor) else setattr(root, node.target, value)
        elif node.op == "call_module" and node.target in segments:
            name, segment = segments[node.target], getattr(source, node.target)
            root.add_module(name, TorchTensorRTModule._of(segment._runner, segment.engine, segment.function, name + "_engine", settings, profiles, _is_result(node)))
            env[node] = graph.call_module(name, tuple(env[n] for n in node.args))
            if len(segment.engine.outputs(segment.function)) == 1:
                single.add(node)
            continue
        if node.op == "call_function" and node.target is operator.getitem and node.args[0] in single:
            env[node] = env[node.args[0]]
        elif node.op == "output":
            graph.output(torch.fx.node.map_arg(node.args[0], lambda n: env[n]))
        else:
            env[node] = graph.node_copy(node, lambda n: env[n])
    return root, graph


def _is_result(node):
    return any(user.op == "output" or user.target is operator.getitem and _is_result(user) for user in node.users)


def _of_one_call(kind, settings, profiles):
    """One engine is the whole model."""
    root, graph = torch.nn.Module(), torch.fx.Graph()
    inputs = [graph.placeholder(slot.node.name) for slot in kind.runnable.slots if slot.kind == "input"]
    root.add_module("_run_on_acc_0", TorchTensorRTModule._of(kind.way.runner, kind.engine, 0, "_run_on_acc_0_engine", settings, profiles))
    call, count = graph.call_module("_run_on_acc_0", tuple(inputs)), len(kind.engine.outputs())
    results = [call] if count == 1 else [graph.call_function(operator.getitem, (call, i)) for i in range(count)]
    for i, axes in enumerate(kind.way.axes):
        if axes:
            results[i] = graph.call_function(torch.ops.aten.permute.default, (results[i], axes))
    graph.output(results)
    return root, graph
