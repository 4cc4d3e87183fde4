"""flex_attention's operator."""

import importlib

# The package has a function of the module's name.
flex_attention = importlib.import_module("torch._higher_order_ops.flex_attention").flex_attention
