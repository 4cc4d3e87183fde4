"""Contexts around a model with collectives."""

from __future__ import annotations

from contextlib import contextmanager

from .._said import once


def set_distributed_mode(group=None, module=None):
    """Does nothing; logged once."""
    once("distributed", "distributed: collectives of a model stay in torch, with the groups that they name; there is nothing to set")


@contextmanager
def distributed_context(group=None, module=None):
    """A context manager that returns the module."""
    set_distributed_mode(group, module)
    yield module
