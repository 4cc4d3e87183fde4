"""The progress of a long build on a terminal: a bar of rich if that is installed, else a line."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

AFTER = 2.0  # seconds: shorter builds show nothing
EACH = 1.0  # seconds: how often a time that passes is written
CAPTURE = "capturing the model"

F = TypeVar("F", bound=Callable)
_here = threading.local()  # .bar: the one that this thread's `shown` began


def shown(compile: F) -> F:
    """Makes a function that captures a model and then builds it show both."""

    @functools.wraps(compile)
    def made(*arguments, **named):
        whole = bar()
        if not isinstance(whole, Bar):  # no terminal, or within another one
            return compile(*arguments, **named)
        with whole, whole.capturing():
            return compile(*arguments, **named)

    return made  # type: ignore[return-value]


def bar():
    """A context manager. Its value is called with the stage and the fraction done. It shows nothing if standard error is not a terminal."""
    if (outer := getattr(_here, "bar", None)) is not None:
        return Part(outer)
    stream = sys.stderr
    try:
        terminal = stream is not None and stream.isatty()
    except ValueError:  # closed
        terminal = False
    return Bar(stream) if terminal else Silent()


class Silent:
    def __enter__(self):
        return None

    def __exit__(self, *problem):
        pass


class Part:
    """A build by the library, shown by the bar of the whole."""

    def __init__(self, whole: "Bar"):
        self._whole = whole

    def __enter__(self):
        self._whole.captured()
        return self._whole.report

    def __exit__(self, *problem):
        pass


class Bar:
    """The progress bar. It leaves nothing on the screen when it is done."""

    def __init__(self, stream):
        self._stream, self._begun, self._rich, self._task, self._width = stream, time.monotonic(), None, None, 0
        self._build_begun = None
        self._captured = threading.Event()
        self._passing: threading.Thread | None = None

    def __enter__(self):
        return self.report

    def __exit__(self, *problem):
        if self._rich is not None:
            self._rich.stop()
        elif self._width:
            self._write("\r" + " " * self._width + "\r")

    @contextlib.contextmanager
    def capturing(self):
        """Shows the seconds that pass until the library begins to build: nobody knows how much of a capture is done."""
        _here.bar = self
        self._passing = threading.Thread(target=self._pass, name="ingot-progress", daemon=True)
        self._passing.start()
        try:
            yield
        finally:
            _here.bar = None
            self.captured()

    def captured(self):
        """The build begins, or there is none."""
        self._captured.set()
        if self._passing is not None:
            self._passing.join()
            self._passing = None

    def _pass(self):
        wait = AFTER
        while not self._captured.wait(wait):
            wait, passed = EACH, time.monotonic() - self._begun
            self._begin()
            if self._rich is not None:
                self._rich.update(self._task, total=None, description=f"ingot: {CAPTURE}, {passed:.0f} s")
            else:
                self._line(f"ingot: {CAPTURE}, {passed:.0f} s")

    def report(self, stage: str, fraction: float):
        """Shows the progress. It never cancels a build, even if the terminal is gone."""
        now = time.monotonic()
        if self._build_begun is None:
            self._build_begun = now
        if now - self._begun < AFTER:
            return
        self._begin()
        if self._rich is not None:
            self._rich.update(self._task, total=1.0, completed=fraction, description=f"ingot: {stage}")
            return
        left = f", about {(now - self._build_begun) * (1 - fraction) / fraction:.0f} s left" if fraction > 0.05 else ""
        self._line(f"ingot: {fraction:4.0%} {stage}{left}")

    def _begin(self):
        if self._rich is not None or self._width:
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        except ImportError:
            return
        self._rich = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=Console(file=self._stream), transient=True)
        self._task = self._rich.add_task("ingot", total=1.0)
        self._rich.start()

    def _line(self, text):
        self._write("\r" + text.ljust(self._width))
        self._width = max(self._width, len(text))

    def _write(self, text):
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass
