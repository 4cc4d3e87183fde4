"""Locks that are free in a child of fork(), and calls that Ctrl-C can end early."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

_STACK = 64 << 20  # bytes of address space, used on demand: a large graph needs deep recursion


tracer = None  # the thread in which torch traces a model (tracing.py)


class Lock:
    """A re-entrant lock: `with lock():`. It is free in a child of fork(), whoever held it, so the guarded data must be consistent at any time."""

    def __init__(self):
        self.renew()
        _locks.add(self)

    def __call__(self):  # Python's own object, so that no interrupt comes between acquiring and the code that releases
        return self._lock

    def renew(self):
        self._lock = threading.RLock()


class Gate:
    """A lock for runs, which may be side by side, and changes, which exclude runs. A change waits for the current runs, and later runs wait for the change. A run inside of a
    run or a change of the same thread does not wait. In a child of fork() the gate is reset."""

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
                while self._changing:
                    self._free.wait()
                self._running += 1
            self._mine.within = True
        try:
            yield
        finally:
            if not within:
                self._mine.within = False
                with self._free:
                    self._running -= 1
                    if self._changing:  # it waits for the runs
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
    """Calls work(), a long call into C. From the main thread it runs in another thread, so that an exception of a signal handler (KeyboardInterrupt) is noticed at once.
    Then cancel() is called, and the exception is raised when work has ended."""
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
    while go and not found:  # in Python 3.11 an interrupted Thread.join() takes the thread for ended
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
