"""AOTAutograd, which makes Dynamo's graphs functional."""

from torch._functorch.aot_autograd import aot_export_module  # a graph of ATen's operators that writes nothing in place, and its signature
from torch._higher_order_ops.effects import with_effects  # an operator with a token that orders it
from torch._subclasses.functional_tensor import FunctionalTensor  # a tensor of that trace: as a constant of its result, it is one that the trace lost
