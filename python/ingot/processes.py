"""What a child of fork() finds, and calls that Ctrl-C ends early."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

_STACK = 64 << 20  # bytes, taken when they are used: a large graph is walked deeply


tracer = None  # the thread in which torch traces a model (tracing.py)


class Lock:
    """`with lock():` is for one thread, which may take it again. In a child it is free, whoever held it: what it guards must be whole at any time."""

    def __init__(self):
        self.renew()
        _locks.add(self)

    def __call__(self):  # Python's own object: no interrupt comes between taking it and what lets it go
        return self._lock

    def renew(self):
        self._lock = threading.RLock()


class Gate:
    """Runs of several steps side by side, and changes that no run may see half of: a change waits for the runs under way, and runs that come meanwhile wait for it. A run within a
    run, or within a change, of the same thread goes through. In a child of fork() the gate is as new."""

    def __init__(self):
        self.renew()
        _locks.add(self)

    def renew(self):
        self._free, self._running, self._changing, self._mine = threading.Condition(), 0, False, threading.local()

    @contextlib.contextmanager
    def running(self):
        within = getattr(self._mine, "within", False)
        if not within:
            with self._free:
                self._free.wait_for(lambda: not self._changing)
                self._running += 1
            self._mine.within = True
        try:
            yield
        finally:
            if not within:
                self._mine.within = False
                with self._free:
                    self._running -= 1
                    self._free.notify_all()

    @contextlib.contextmanager
    def changing(self):
        with self._free:
            self._free.wait_for(lambda: not self._changing)
            self._changing = True
            try:
                self._free.wait_for(lambda: self._running == (1 if getattr(self._mine, "within", False) else 0))
            except BaseException:
                self._changing = False
                self._free.notify_all()
                raise
        try:
            yield
        finally:
            with self._free:
                self._changing = False
                self._free.notify_all()


_locks: "weakref.WeakSet" = weakref.WeakSet()


def _in_child():
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def interruptible(work, cancel=lambda: None):
    """work(), which holds Python up for long. In the main thread it runs beside it, so that an exception of a signal's handler (KeyboardInterrupt) is met at once:
    then cancel() is called, and the exception goes on when the work has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    go, found = [], []
    gate, ended = threading.Lock(), threading.Lock()
    gate.acquire()
    ended.acquire()

    def run():
        gate.acquire()
        try:
            if go:
                found.append((work(), None))
        except BaseException as problem:  # the caller's
            found.append((None, problem))
        finally:
            ended.release()

    interrupted = None
    try:
        before = threading.stack_size(_STACK)
        try:
            threading.Thread(target=run, name="ingot compiles", daemon=True).start()
        finally:
            threading.stack_size(before)
        go.append(True)
    except BaseException as problem:
        interrupted = problem
        cancel()
    gate.release()
    while go and not found:  # Thread.join() that is interrupted takes the thread for ended in Python 3.11
        try:
            ended.acquire()
        except BaseException as problem:
            interrupted = interrupted or problem
            cancel()
    if interrupted is not None:
        raise interrupted
    result, problem = found[0]
    if problem is not None:
        raise problem
    return result
