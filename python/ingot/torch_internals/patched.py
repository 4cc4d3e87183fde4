"""One way to put something in the place of an attribute of torch for a while."""

from __future__ import annotations

import contextlib


@contextlib.contextmanager
def patched(owner, name: str, make):
    """A context in which make(the original) is the attribute."""
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)
