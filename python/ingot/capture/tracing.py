"""Lets only one thread trace a model at a time, because torch's tracers patch classes and keep state that all threads share."""

from __future__ import annotations

import functools
import os
import threading

from torch._dynamo import convert_frame  # imported here and not at first use, because two threads cannot import it at once

from ..base import processes


def alone(function):
    """Runs `function` while no other thread traces, not even for torch.compile: the lock is Dynamo's own, so there is no second lock. It is re-entrant."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with convert_frame.compile_lock:
            before, processes.tracer = processes.tracer, threading.get_ident()
            try:
                return function(*args, **kwargs)
            finally:
                processes.tracer = before

    return call


def _free_in_a_child():
    """Frees the lock in a child of fork(): the thread that held it does not exist there."""
    if convert_frame.compile_lock.acquire(blocking=False):
        convert_frame.compile_lock.release()
    else:
        convert_frame.compile_lock = threading.RLock()
        processes.tracer = None


os.register_at_fork(after_in_child=_free_in_a_child)
