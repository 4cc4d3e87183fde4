"""`ingot.Module`: its kinds, arguments and results, LoRA adapters, verification."""
