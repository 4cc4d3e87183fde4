"""The table of all names of Torch-TensorRT's API, with what each is here. It gives docs/migration.md and the functions of refused names.

Statuses: "works"; "differs" (the text says how); "not yet" (accepted with a warning, or absent); "refused" (a call is an UnsupportedError with the text and the remedy).
"""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import refusal


@dataclass(frozen=True)
class Symbol:
    name: str
    status: str
    text: str
    remedy: str = ""


def _group(prefix, *rows):
    return [Symbol(f"{prefix}{row[0]}", *row[1:]) for row in rows]


_ELSEWHERE = "compile on the machine that runs it"
_PLUGIN = "generates nothing. An operator with a kernel of ingot.register_kernel runs in the engine; any other runs in torch, between engines, which is logged once"
_EXECUTORCH = "ingot has no ExecuTorch backend"
_NETWORK = "it builds layers of TensorRT"

SYMBOLS: list[Symbol] = [
    *_group(
        "",
        ("compile", "works", "ir default, dynamo, torch_compile, ts. Weights are the model's own and are followed; ir=\"fx\" is refused"),
        ("convert_method_to_trt_engine", "differs", "returns the bytes of an ingot plan, not of a TensorRT engine"),
        ("save", "differs", "exported_program, torchscript, aot_inductor, and ingot's own \"ingot\"; executorch is refused. TorchScript has the model's parameters under their names and a call of ingot::call for each engine, so a process imports ingot before torch.jit.load, and a C++ program loads libingot_torch.so. torch.jit.save and torch.jit.trace take compiled modules too. The file has the sizes of the build, so dynamic_shapes and retrace change nothing"),
        ("load", "works", "exported programs, TorchScript, AOTInductor packages and .ingot files"),
        ("cross_compile_for_windows", "refused", "ingot has no Windows runtime", _ELSEWHERE),
        ("load_cross_compiled_exported_program", "refused", "ingot has no Windows runtime", _ELSEWHERE),
        ("Input", "works", "shapes, ranges, shape_ranges, profiles, namedtuples, shared_dims, tensor_domain, formats. Profiles are one range, their union. A call outside of the range is an InputError (a ValueError)"),
        ("Device", "differs", "a model runs where its tensors are; \"cpu\" is a device too; compiling for a DLA is refused"),
        ("dtype", "works", "without conversions to TensorRT's own types"),
        ("memory_format", "differs", "contiguous, channels_last and channels_last_3d; TensorRT's own formats are refused when an Input has one"),
        ("DeviceType", "works", "with one more member, CPU"),
        ("EngineCapability", "differs", "STANDARD; the others are refused when set"),
        ("Platform", "works", "the platform of this machine"),
        ("MutableTorchTensorRTModule", "differs", "an ingot.MutableModule: engines follow the weights, so a change (load_lora_weights and fuse_lora too) needs no refit; new sizes widen the range; a saved one is compiled again by its first call"),
        ("TorchTensorRTModule", "differs", "made from the bytes of a plan"),
        ("ENABLED_FEATURES", "works", "torchscript_frontend, dynamo_frontend and refit are true, the others false"),
    ),
    *_group(
        "dynamo.",
        ("trace", "works", "torch.export with the sizes that Inputs leave open"),
        ("compile", "works", "compiles an ExportedProgram"),
        ("export", "works", "a program whose engines are one operator each, ingot::execute"),
        ("convert_exported_program_to_serialized_trt_engine", "differs", "returns the bytes of a plan. With lift_mutable_buffers the engine writes its inputs buf_<name>, which are not among its outputs"),
        ("refit_module_weights", "differs", "in_place=True replaces the weights without a build; otherwise the new program is built with the old settings. Works with immutable_weights too"),
        *((f"_refit.{name}", "refused", "it works on engines of TensorRT", "refit_module_weights") for name in ("construct_refit_mapping", "get_engine_from_encoded_engine")),
        ("CompilationSettings", "works", "a dataclass of the 51 fields below"),
        ("Debugger", "differs", "raises the log level; writes and draws ingot's graphs before and after each of its own passes, the steps of engines as JSON, and their profiles"),
        ("cross_compile_for_windows", "refused", "ingot has no Windows runtime", _ELSEWHERE),
        ("save_cross_compiled_exported_program", "refused", "ingot has no Windows runtime", _ELSEWHERE),
        ("load_cross_compiled_exported_program", "refused", "ingot has no Windows runtime", _ELSEWHERE),
        ("SourceIR", "works", "an enumeration"),
        ("UnsupportedOperatorException", "works", "also an ingot.UnsupportedError: it lists every operator with the user's lines"),
        ("_engine_cache.BaseEngineCache", "differs", "stores bytes under a name; get_hash hashes the whole graph. pack and unpack are for scripts: builds store ingot's own bytes. Without such a cache, ingot's own is used"),
        ("_engine_cache.DiskEngineCache", "differs", "a BaseEngineCache of files"),
        ("utils", "works", "cosine_similarity, check_output_equal, get_model_device, prepare_inputs, to_torch_device, extract_var_range_info and their like"),
    ),
    *_group(
        "dynamo.runtime.",
        ("TorchTensorRTModule", "differs", "engine is the ingot.Engine, with profiles and aliased_io next to it; get_layer_info and enable_profiling show ingot's steps. What the model writes is written in place, and is not among the results"),
        ("PythonTorchTensorRTModule", "differs", "the same class: there is one runtime"),
        ("MutableTorchTensorRTModule", "differs", "see above"),
        ("ResourceAllocationStrategy", "differs", "a context that changes nothing: the setting dynamically_allocate_resources decides"),
    ),
    *_group(
        "dynamo.lowering.",
        ("register_torch_trt_decomposition", "works", "applied to the program before ingot captures it"),
        ("get_decompositions", "differs", "torch's decompositions to its core operators, without those of operators that upstream keeps whole, and the user's. They are for scripts: builds expand operators by ingot's own table"),
        ("pre_export_lowering", "differs", "returns the program unchanged"),
        ("post_lowering", "differs", "runs the user's passes; drops copies of inputs, indices of poolings and guards that nothing needs; writes to slices of open ends become scatters"),
        ("repair_input_aliasing", "works", "copies the inputs; ingot's own builds write inputs in place, as eager does"),
        ("remove_num_users_is_0_nodes", "works", "a pass"),
        ("passes.ATEN_LOWERING_PASSES", "differs", "holds only the user's passes"),
        ("passes.normalize_negative_slice_stop.normalize_negative_slice_stop", "works", "a pass, for scripts: builds compute such slices as they are"),
        ("passes.decompose_dynamic_slice_scatter.decompose_dynamic_slice_scatter", "works", "a pass, and part of post_lowering; builds do not need it"),
        ("passes.eliminate_sym_min_int64_max.eliminate_sym_min_int64_max", "works", "a pass for scripts; builds do not need it"),
        ("passes.fuse_pad_into_convolution.fuse_pad_into_convolution", "works", "a pass for scripts; builds do not need it"),
        ("_buffer_lifting.lift_mutated_buffers", "works", "buffers that a graph writes become inputs of it"),
        ("_buffer_lifting.inline_lifted_buffers_into_gm", "works", "and buffers again"),
        ("passes.complex_graph_rewrite.complex_graph_detection", "works", "a pass: complex inputs and results become real tensors with one more axis. Builds compute with pairs of real numbers by themselves"),
        ("passes._aten_lowering_pass", "works", "a pass over the graph; the graph is exported again after it"),
        ("passes._remove_lowering_pass", "works", "removes a pass by its index"),
        ("passes.dump_lowering_passes", "works", "returns the names of the user's passes"),
        ("register_constant_fold_exclusion_rule", "refused", "what depends on weights alone is computed when weights are prepared, and follows them", "leave it out"),
        ("unregister_constant_fold_exclusion_rule", "refused", "there are no such rules", "leave it out"),
        ("SubgraphBuilder", "refused", "it inserts nodes with TensorRT's metadata", "graph.inserting_before(node) and graph.call_function of torch.fx"),
    ),
    *_group(
        "dynamo.conversion.",
        ("dynamo_tensorrt_converter", "differs", "a converter that composes torch's operators works, as a decomposition; one that asks ctx for TensorRT's network is an UnsupportedError when it is used"),
        ("DYNAMO_CONVERTERS", "differs", "holds the user's converters; `in` and keys() also cover ingot's table of operators"),
        ("ConverterRegistry", "differs", "see above"),
        ("ConverterSupport", "works", "a registered converter"),
        ("ConverterPriority", "works", "HIGH goes first"),
        ("CallingConvention", "works", "an enumeration"),
        ("ConversionContext", "differs", "has only compilation_settings"),
        ("has_static_shapes", "works", "a validator"),
        ("node_has_dynamic_shapes", "works", "checks a node and what it reads"),
        ("has_static_shapes_in_args", "works", "a validator"),
        ("has_dynamic_shapes_in_args", "works", "a validator"),
        ("convert_module", "differs", "the engine is ingot's"),
        ("interpret_module_to_result", "differs", "the bytes are an ingot plan"),
        ("TRTInterpreter", "differs", "makes a plan of a GraphModule; there is no TensorRT network"),
        ("TRTInterpreterResult", "differs", "its engine can only be serialized"),
        ("infer_module_output_dtypes", "works", "from the graph's metadata"),
        *((f"aten_ops_converters.{name}", "works", "a validator") for name in ("cross_validator", "sort_validator", "index_has_bool_indices")),
        ("aten_ops_converters.index_nonbool_validator", "works", "a validator; masks are accepted"),
        ("converter_utils", "refused", _NETWORK, "compose torch's operators"),
        ("impl", "refused", _NETWORK, "compose torch's operators"),
        ("plugins.custom_op", "differs", _PLUGIN),
        ("plugins.generate_plugin", "differs", _PLUGIN),
        ("plugins.generate_plugin_converter", "differs", _PLUGIN),
    ),
    *_group(
        "dynamo.partitioning.",
        ("fast_partition", "differs", "cuts a graph by ingot's table of operators, for inspection (submodules are numbered as upstream numbers them); compile cuts in the library, by the estimated gain of a segment"),
        ("global_partition", "differs", "the same, with as few blocks as the data flow allows"),
        ("get_graph_converter_support", "works", "by ingot's table of operators"),
        ("hierarchical_adjacency_partition", "differs", "cuts for several backends, for inspection; compile has one backend, ingot"),
        ("_atomic_subgraphs.register_atomic_subgraph", "differs", "keeps the pattern, for scripts that cut graphs; compile does not use it"),
        ("_resource_partitioner.resource_partition", "differs", "cuts the blocks of a cut graph so that builds fit in memory, to look at; compile does not ask for it"),
    ),
    *_group(
        "dynamo.tools.opset_coverage.",
        ("opset_coverage", "works", "CONVERTED, LOWERED or FALLBACK for each operator; also python -m"),
        ("get_aten_ops", "works", "the core operators of torch"),
    ),
    *_group(
        "runtime.",
        ("set_cudagraphs_mode", "differs", "stores the value; engines record their runs on a GPU by themselves. While it is on, a call of engines that read sizes from data is a RuntimeError"),
        ("get_cudagraphs_mode", "works", "returns what was set"),
        ("get_whole_cudagraphs_mode", "works", "true inside enable_cudagraphs of a module with parts in torch"),
        ("enable_cudagraphs", "works", "a module with parts in torch is one CUDA graph from the second call of its sizes on; the context gives the module itself. Parts on the CPU and operators that cannot be recorded run without it, with a warning. A RuntimeError for engines that read sizes from data, and inside enable_output_allocator"),
        ("enable_pre_allocated_outputs", "works", "results of the next call of the same sizes are allocated after a call. Memory of a result that somebody holds, even as a view, is never written again"),
        ("enable_output_allocator", "differs", "returns the module; results of any size get memory while the engine runs"),
        ("weight_streaming", "works", "on a GPU weights beyond the budget are streamed from the host (`ingot.Engine.configure`). Tensors that the caller's model holds on the GPU stay there. On the CPU a budget is only stored"),
        ("set_multi_device_safe_mode", "differs", "every call checks the device of its inputs"),
        ("optimization_profile", "differs", "stores and shows the choice (\"auto\" chooses one); it changes nothing, because one plan serves the sizes of all profiles"),
        ("RuntimeSettings", "differs", "checked and shown, without effect"),
        ("RuntimeCache", "differs", "keeps the bytes of an existing file and adds none: ingot keeps compiled GPU code in its own folder"),
        ("runtime_cache", "differs", "see RuntimeCache"),
        ("runtime_config", "differs", "see RuntimeSettings"),
        ("set_dynamic_shapes_kernel_strategy", "differs", "see RuntimeSettings"),
    ),
    *_group(
        "logging.",
        ("set_level", "works", "sets the level of this package's logger and of ingot's; INGOT_LOG sets the library's"),
        *((name, "works", "a context") for name in ("internal_errors", "errors", "warnings", "info", "debug", "graphs")),
        ("TRT_LOGGER", "differs", "a logger of Python's"),
    ),
    *_group(
        "ts.",
        ("compile", "differs", "returns a GraphModule, for torch_tensorrt.save. torch's converter makes a graph of a ScriptModule, and sizes with a range are open; one that it cannot convert runs uncompiled, with a warning. An nn.Module is compiled as by torch_tensorrt.compile"),
        ("convert_method_to_trt_engine", "differs", "returns the bytes of a plan"),
        ("check_method_op_support", "differs", "compares the names of the operators"),
        ("embed_engine_in_new_module", "differs", "returns a TorchTensorRTModule"),
        ("TensorRTCompileSpec", "refused", "torch no longer lowers modules to backends in this way", "torch_tensorrt.compile(module, inputs=...)"),
    ),
    *_group(
        "distributed.",
        ("distributed_context", "differs", "returns the module; collectives stay in torch, with the groups that they name"),
        ("set_distributed_mode", "differs", "see above"),
        ("setup_nccl_for_torch_tensorrt", "differs", "does nothing; no setup is needed"),
    ),
    *_group(
        "kernels.",
        ("cuda_kernel_op", "differs", "the kernel is compiled for the model's target and kept in the plan; aot_fn builds TensorRT's classes: give grid= (an ingot.Launch) instead"),
        ("ptx_op", "differs", "the same for PTX; grid= in place of aot_fn"),
        ("KernelSpec", "works", "inputs, outputs, extras and geometry give the schema, the fake kernel and the launch"),
        *((name, "works", "a part of a KernelSpec") for name in ("InputDecl", "ScalarInput", "OutputDecl", "SameAs", "ReduceDims", "Numel", "DimSize", "Elementwise", "Reduction")),
        ("Custom", "differs", "a launch that TensorRT's classes describe: refused when it is used; give grid= instead"),
    ),
    *_group("executorch.", *((name, "refused", _EXECUTORCH, 'save(output_format="exported_program")') for name in ("export", "TensorRTPartitioner", "TensorRTBackend", "get_edge_compile_config"))),
    *_group("fx.", ("compile", "refused", "the fx front end is retired", "torch_tensorrt.compile")),
]  # fmt: skip


def refused(name: str):
    """The function that stands for a refused name."""
    row = next(row for row in SYMBOLS if row.name == name and row.status == "refused")

    def function(*args, **kwargs):
        raise refusal(row.name, row.text, row.remedy)

    function.__name__ = function.__qualname__ = row.name.rpartition(".")[2]
    function.__doc__ = f"Refused: {row.text}. Instead: {row.remedy}."
    return function


def refused_names(module: str):
    """A module's `__getattr__`: its refused names as functions."""
    prefix = module.partition("torch_tensorrt")[2].lstrip(".")
    prefix = prefix + "." if prefix else ""
    names = {row.name.removeprefix(prefix) for row in SYMBOLS if row.status == "refused" and row.name.startswith(prefix)}

    def __getattr__(name):
        if name in names:
            return refused(prefix + name)
        raise AttributeError(f"module 'torch_tensorrt{'.' + prefix[:-1] if prefix else ''}' has no attribute {name!r}")

    return __getattr__
