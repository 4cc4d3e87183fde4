"""Torch programs with engines in them, written and loaded, and archives of torch."""
