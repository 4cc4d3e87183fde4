"""Runs in a fresh process: loads saved programs, runs their calls and stores the results. It does not know the models."""

import sys

import ingot
import torch
import torch.utils._pytree as pytree


def run(way, path, calls):
    if way == "ingot.load":
        model = ingot.load(path)
    elif way == "aot_inductor":
        model = torch._inductor.aoti_load_package(path)
    else:
        model = torch.export.load(path).module()
    seen = []
    for arguments, keywords in calls:
        out = model(*arguments, **keywords)
        seen.append(pytree.tree_map(lambda t: t.clone(memory_format=torch.preserve_format) if isinstance(t, torch.Tensor) else t, out))
    buffers = dict(model.named_buffers()) if isinstance(model, torch.nn.Module) else {}
    shared = sorted(name for name, t in buffers.items() for r in pytree.tree_leaves(out) if isinstance(r, torch.Tensor) and r.data_ptr() == t.data_ptr())
    return {"results": seen, "buffers": {n: t.clone() for n, t in buffers.items() if not n.startswith("ingot_plan")}, "shared": shared}


jobs = torch.load(sys.argv[1], weights_only=False)
with torch.no_grad():
    torch.save([run(*job) for job in jobs], sys.argv[2])
