"""Small captured graphs for the tests of fixes, and what every fix has to do."""

import torch

from ingot.capture.fixes import order
from ingot.capture.traced import Traced


class Of(torch.nn.Module):
    """A model that is one function."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *inputs):
        return self._function(*inputs)


def exported(model, *inputs, **how) -> Traced:
    model = model if isinstance(model, torch.nn.Module) else Of(model)
    return Traced.of_program(torch.export.export(model.eval(), inputs, **how))


def of_dynamo(model, *inputs, then=lambda traced: None, **how) -> Traced:
    """then: called while Dynamo still has what it knows of the inputs."""
    found = []

    def backend(module, examples):
        found.append(Traced(module, in_aten=False))
        then(found[0])
        return module

    torch._dynamo.reset()
    torch.compile(model, backend=backend, **how)(*inputs)
    (traced,) = found
    return traced


def fixed(name: str, traced: Traced) -> torch.fx.GraphModule:
    """The graph after a fix that it wants. It is valid, and does not want the fix again."""
    (fix,) = (f for f in order.FIXES if f.name == name)
    assert fix.wanted(traced)
    assert fix.apply(traced) is not False
    traced.graph.lint()
    traced.module.recompile()
    return traced.module


def targets(traced: Traced) -> list[str]:
    """What the graph calls, in order."""
    return [n.target if isinstance(n.target, str) else str(n.target) if isinstance(n.target, torch._ops.OpOverload) else n.target.__name__ for n in traced.graph.nodes if n.op.startswith("call_")]


def result(traced: Traced):
    return traced.graph.output_node().args[0][0]


def is_unwanted(name: str) -> bool:
    """Whether graphs of products and a ReLU do not want the fix."""
    (fix,) = (f for f in order.FIXES if f.name == name)
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.randn(3, 4)
    return not fix.wanted(exported(model, x)) and not fix.wanted(of_dynamo(model, x))
