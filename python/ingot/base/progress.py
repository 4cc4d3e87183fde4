"""The progress of a long build on a terminal: a bar of rich if that is installed, else a line."""

from __future__ import annotations

import sys
import time

AFTER = 2.0  # seconds: shorter builds show nothing


def bar():
    """A context manager. Its value is called with the stage and the fraction done. It shows nothing if standard error is not a terminal."""
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


class Bar:
    """The progress bar. It leaves nothing on the screen when it is done."""

    def __init__(self, stream):
        self._stream, self._begun, self._rich, self._task, self._width = stream, time.monotonic(), None, None, 0

    def __enter__(self):
        return self._report

    def __exit__(self, *problem):
        if self._rich is not None:
            self._rich.stop()
        elif self._width:
            self._write("\r" + " " * self._width + "\r")

    def _report(self, stage: str, fraction: float):
        """Shows the progress. It never cancels a build, even if the terminal is gone."""
        elapsed = time.monotonic() - self._begun
        if elapsed < AFTER:
            return
        if self._task is None and self._rich is None and not self._width:
            self._begin()
        if self._rich is not None:
            self._rich.update(self._task, completed=fraction, description=f"ingot: {stage}")
            return
        left = f", about {elapsed * (1 - fraction) / fraction:.0f} s left" if fraction > 0.05 else ""
        line = f"ingot: {fraction:4.0%} {stage}{left}"
        self._write("\r" + line.ljust(self._width))
        self._width = max(self._width, len(line))

    def _begin(self):
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        except ImportError:
            return
        self._rich = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=Console(file=self._stream), transient=True)
        self._task = self._rich.add_task("ingot", total=1.0)
        self._rich.start()

    def _write(self, text):
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass
