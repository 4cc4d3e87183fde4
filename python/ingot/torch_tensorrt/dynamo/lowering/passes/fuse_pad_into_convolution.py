"""`fuse_pad_into_convolution`: zeros around the input of a convolution as its own padding, which may then differ before and after an axis."""

from __future__ import annotations

import torch

_aten = torch.ops.aten


def tensorrt_conv_asym_pad_op(x, weight, bias, stride, pre_padding, post_padding, dilation, groups):
    """A convolution with its own number of zeros before and after each axis. It is a function of torch's operators, so torch.export sees those."""
    around = [count for ends in zip(reversed(pre_padding), reversed(post_padding)) for count in ends]
    return _aten.convolution.default(_aten.constant_pad_nd.default(x, around, 0), weight, bias, stride, [0] * len(stride), dilation, False, [0] * len(stride), groups)


def fuse_pad_into_convolution(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """Changes the graph in place: a `constant_pad_nd` of zeros that only a convolution reads, and that pads only the axes that the convolution walks along, becomes part of it. For scripts;
    builds do not need it."""
    for conv in gm.graph.find_nodes(op="call_function", target=_aten.convolution.default):
        pad, weight, bias, stride, padding, dilation, transposed, _, groups = conv.args
        if transposed or not _is_zeros(pad) or len(pad.args[1]) > 2 * len(stride) or any(count < 0 for count in pad.args[1]):
            continue
        axes = len(stride)
        own = list(padding) * (axes // len(padding))
        around = [*pad.args[1], *[0] * (2 * axes - len(pad.args[1]))]
        before, behind = around[0::2][::-1], around[1::2][::-1]
        with gm.graph.inserting_before(conv):
            args = (pad.args[0], weight, bias, list(stride), [a + b for a, b in zip(before, own)], [a + b for a, b in zip(behind, own)], list(dilation), groups)
            fused = gm.graph.call_function(tensorrt_conv_asym_pad_op, args)
        fused.meta = dict(conv.meta)
        conv.replace_all_uses_with(fused)
        gm.graph.erase_node(conv)
        gm.graph.erase_node(pad)
    gm.recompile()
    return gm


def _is_zeros(node) -> bool:
    """Whether a node pads with zeros and is read once."""
    return isinstance(node, torch.fx.Node) and node.target is _aten.constant_pad_nd.default and len(node.users) == 1 and (len(node.args) < 3 or node.args[2] == 0)
