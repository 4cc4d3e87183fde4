"""Every private name and patch of torch that ingot uses, each once, with what it is for. No other module names one (`tools/check_layers.py`).

All are in torch 2.10 to 2.13 unless a line says otherwise. tests/torch_internals asks for each by itself: run on another torch, it lists what that release has dropped or renamed. The files
import only what their users had imported anyway, so `import ingot` stays quick."""
