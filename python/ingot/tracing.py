"""torch traces a model in one thread at a time: its tracers patch classes and keep state that all threads share."""

from __future__ import annotations

import functools
import os
import threading

from torch._dynamo import convert_frame  # here and not when it is first used: two threads cannot import it at once

from . import processes


def alone(function):
    """While it runs no other thread traces, torch.compile's neither: the lock is Dynamo's own, so that there is no second one to wait for. A thread may take it again."""

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
    """A thread that is not there after fork() cannot give the lock back."""
    if convert_frame.compile_lock.acquire(blocking=False):
        convert_frame.compile_lock.release()
    else:
        convert_frame.compile_lock = threading.RLock()
        processes.tracer = None


os.register_at_fork(after_in_child=_free_in_a_child)
