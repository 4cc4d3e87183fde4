"""Engines with a model's weights: one call, or steps of a torch graph; how weights are followed."""
