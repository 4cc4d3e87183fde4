"""torch's pytrees: how inputs and results nest. Without them no call with lists or dictionaries works."""

from torch.utils import _pytree as pytree


def node_type(value) -> type:
    """The class by which a value is registered, namedtuple for all of these. dims.py gives torch.export sizes in the same structure."""
    return pytree._get_node_type(value)
