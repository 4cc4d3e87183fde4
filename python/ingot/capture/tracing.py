"""Lets only one thread trace a model at a time, because torch's tracers patch classes and keep state that all threads share."""

from __future__ import annotations

import functools
import os
import threading


from ..base import processes
from ..torch_internals import dynamo  # here and not at first use, because two threads cannot import Dynamo at once


def alone(function):
    """Runs `function` while no other thread traces, not even for torch.compile: the lock is Dynamo's own, so there is no second lock. It is re-entrant."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with dynamo.lock():
            before, processes.tracer = processes.tracer, threading.get_ident()
            try:
                return function(*args, **kwargs)
            finally:
                processes.tracer = before

    return call


def _free_in_a_child():
    """Frees the lock in a child of fork(): the thread that held it does not exist there."""
    if dynamo.lock().acquire(blocking=False):
        dynamo.lock().release()
    else:
        dynamo.renew_lock()
        processes.tracer = None


os.register_at_fork(after_in_child=_free_in_a_child)
