"""From a model to the graph that the compiler takes: torch.export, its functional form, and the JSON that the library reads."""
