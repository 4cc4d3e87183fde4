"""An HTTP server for a language model, with OpenAI's interface: `python -m ingot.serve m.ingot`. docs/serving.md shows it."""

from .app import application

__all__ = ["application"]
