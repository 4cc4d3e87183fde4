"""Changes of captured graphs: what torch's own graph gets wrong, or what no engine takes. order.py lists them."""
