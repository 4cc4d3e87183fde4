"""Every setting is mapped, explained once, or refused; an unknown one is reported."""

import logging

import pytest
import torch

import ingot
from ingot import OptionError, UnsupportedError, torch_tensorrt
from ingot import autocast_options
from ingot.torch_tensorrt import EngineCapability, _said
from ingot.torch_tensorrt import logging as levels
from ingot.torch_tensorrt.dynamo import CompilationSettings, _settings
from ingot.torch_tensorrt.dynamo._settings import ROWS, TABLE, Settings
from ingot.torch_tensorrt.dynamo.partitioning import _resource_partitioner

OTHER = {bool: True, int: 7, str: "moderate", float: 0.5}


def other(row):
    """A value that is not the default."""
    special = {"optimization_level": 3, "device": "cuda:0", "engine_capability": EngineCapability.SAFETY, "autocast_low_precision_type": torch.float16, "autocast_max_depth_of_reduction": 64, "autocast_calibration_dataloader": [torch.ones(1)],
               "enabled_precisions": {torch.half}}  # fmt: skip
    if row.name in special:
        return special[row.name]
    value = row.initial
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else {"x"} if isinstance(value, set) else "fast"


@pytest.fixture(autouse=True)
def anew(caplog):
    _said.forget()
    with levels.info():
        yield


def test_defaults_are_quiet(caplog):
    assert Settings({}).options() == {"min_block_size": 5, "matmul_precision": "tf32", "cache": "off"}
    assert not caplog.text
    Settings({row.name: row.initial for row in TABLE}).options()
    assert not caplog.text


@pytest.mark.parametrize("row", TABLE, ids=lambda r: r.name)
def test_another_value_means_something_or_is_told(row, caplog):
    given = {row.name: other(row)}
    if row.status == "refused" or row.name == "engine_capability":
        with pytest.raises(UnsupportedError, match=row.name):
            Settings(given).options()
        return
    rules = {"enable_autocast": True, "autocast_low_precision_type": torch.bfloat16} if row.name.startswith(("autocast", "enable_autocast")) else {}
    if rules:  # one alone casts nothing
        assert Settings(given).options() == Settings({}).options()
    read = Settings({**rules, **given})
    options = read.options()
    ingot.engine._library.Options(autocast_options.plain(options))  # which ingot takes
    said = [r for r in caplog.records if row.name in r.getMessage()]
    if row.status == "not yet":
        assert [r.levelno for r in said] == [logging.WARNING]
    elif row.status == "differs":
        assert row.quiet or [r.levelno for r in said] == [logging.INFO]
        assert not said or row.text in caplog.text
    else:
        assert (not said or row.name == "device") and (options != Settings({}).options() or row.to is None or row.name in ("device", "fallback_data_dependent_ops"))
    read.options()
    assert len([r for r in caplog.records if row.name in r.getMessage()]) == len(said)


def test_what_ingot_is_told():
    assert Settings({"min_block_size": 1, "torch_executed_ops": {torch.ops.aten.mul.Tensor, "torch.ops.aten.add.Tensor"}}).options()["min_block_size"] == 1
    names = Settings({"torch_executed_ops": [torch.ops.aten.mul.Tensor, "torch.ops.aten.add.Tensor", torch.ops.aten.sub, "aten::div.Tensor"]}).options()["torch_executed_ops"]
    assert names == ["aten.mul.Tensor", "aten.add.Tensor", "aten.sub", "aten.div.Tensor"]
    assert Settings({"torch_executed_modules": [torch.nn.Linear, "encoder.0"]}).options()["torch_executed_modules"] == ["Linear", "encoder.0"]
    assert Settings({"require_full_compilation": True}).options() == {"min_block_size": 1, "fallback": "error", "matmul_precision": "tf32", "cache": "off"}
    assert Settings({"min_block_size": float("inf")}).options()["dryrun"]
    assert Settings({"optimization_level": 4, "disable_tf32": True, "strip_engine_weights": True, "dynamically_allocate_resources": True}).options() == {
        "min_block_size": 5, "build_seconds": 60, "matmul_precision": "ieee", "weights": "strip", "arena": "call", "cache": "off"}  # fmt: skip
    kept = {"cache_built_engines": True, "engine_cache_dir": "/here", "engine_cache_size": 10}
    assert Settings(kept).options().items() >= {"cache": "write", "cache_dir": "/here", "cache_bytes": 10}.items()
    assert Settings({**kept, "reuse_cached_engines": True}).options()["cache"] == "readwrite"


def test_the_rules_of_autocast_are_one_option():
    low = {"enable_autocast": True, "autocast_low_precision_type": torch.float16}
    assert Settings(low).options()["autocast"] == ingot.Autocast(torch.float16, results="low")
    assert "autocast" not in Settings({"enable_autocast": True}).options()
    loader = [torch.ones(2)]
    more = {**low, "autocast_excluded_nodes": {"^conv1$", "relu"}, "autocast_excluded_ops": {torch.ops.aten.flatten.using_ints}, "autocast_max_output_threshold": 100,
            "autocast_max_depth_of_reduction": 64, "autocast_calibration_dataloader": loader}  # fmt: skip
    assert Settings(more).options()["autocast"] == ingot.Autocast(
        torch.float16, ("module:(?:^conv1$).*", "module:(?:relu).*", r"aten\.flatten\.using_ints"), max_output=100, max_reduction=64, calibration=loader, results="low"
    )
    assert Settings({"enabled_precisions": {torch.float32, ingot.torch_tensorrt.dtype.bf16}}).options()["autocast"] == ingot.Autocast(torch.bfloat16)
    assert Settings({**low, "enabled_precisions": {torch.bfloat16}}).options()["autocast"].dtype is torch.float16
    assert not _settings.settings_are_compatible(CompilationSettings(**low), CompilationSettings())[0]
    with pytest.raises(ValueError, match="autocast_low_precision_type is torch.float32"):
        Settings({**low, "autocast_low_precision_type": torch.float32}).options()


def test_a_bad_value_is_an_error():
    for name, value in (("optimization_level", 6), ("min_block_size", "many"), ("min_block_size", 1.5)):
        with pytest.raises(OptionError, match=name):
            Settings({name: value}).options()
    with pytest.raises(ValueError, match="exclude one another"):
        Settings({"require_full_compilation": True, "fallback_data_dependent_ops": True})
    with pytest.raises(ValueError, match="given twice"):
        Settings({"truncate_double": True, "truncate_long_and_double": True})


def test_an_unknown_name_is_told_with_the_nearest(caplog):
    Settings({"optimisation_level": 3, "xyzzy": 1})
    assert "do you mean 'optimization_level'?" in caplog.text and "'xyzzy' is not known and does nothing" in caplog.text


def test_older_names():
    assert Settings({"refit": True}).get("immutable_weights") is False and Settings({"make_refittable": True}).get("immutable_weights") is False
    assert Settings({"truncate_long_and_double": True}).get("truncate_double") is True


def test_compilation_settings_is_a_dataclass_of_the_table():
    made = CompilationSettings(min_block_size=1)
    assert made.min_block_size == 1 and made.immutable_weights is True and made != CompilationSettings()
    assert Settings({"min_block_size": 3}).compilation == CompilationSettings(min_block_size=3)
    assert {f for f in vars(made)} == {name for name, row in ROWS.items() if row.group == "field"}
    assert _settings.settings_are_compatible(made, CompilationSettings()) == (False, {"min_block_size"})
    with pytest.raises(TypeError):
        CompilationSettings(unknown=1)


class Large(torch.nn.Module):
    """4 MB of weights."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))

    def forward(self, x):
        return self.layers(x)


def test_a_build_is_refused_that_its_budget_cannot_hold(caplog):
    model, x = Large().eval(), torch.randn(2, 512)
    held = _resource_partitioner._from_proc()[0]
    common = {"min_block_size": 1, "enable_resource_partitioning": True}
    for entry in (torch_tensorrt.compile, lambda m, inputs, **s: torch_tensorrt.dynamo.compile(torch.export.export(m, tuple(inputs)), inputs, **s)):
        with pytest.raises(ValueError, match=r"a build of this model takes up to 54\d{5} bytes of the host's memory, but cpu_memory_budget=\d+ leaves \d+") as caught:
            entry(model, inputs=[x], cpu_memory_budget=held, **common)
        assert "give a larger cpu_memory_budget" in str(caught.value)
        torch.testing.assert_close(entry(model, inputs=[x], cpu_memory_budget=held + (1 << 30), **common)(x), model(x))
    torch_tensorrt.compile(model, inputs=[x], min_block_size=1, cpu_memory_budget=1)  # counts only with enable_resource_partitioning
    torch_tensorrt.compile(model, inputs=[x], **common)  # the host has enough


def test_the_budget_under_torch_compile(caplog):
    model, x = Large().eval(), torch.randn(2, 512)
    options = {"min_block_size": 1, "enable_resource_partitioning": True, "cpu_memory_budget": 1}
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="torch_tensorrt", options=options)(x), model(x))
        assert "a graph could not be built and runs as it was" in caplog.text and "cpu_memory_budget=1 leaves 0" in caplog.text
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="cpu_memory_budget=1 leaves 0"):
            torch.compile(model, backend="torch_tensorrt", options={**options, "pass_through_build_failures": True})(x)
