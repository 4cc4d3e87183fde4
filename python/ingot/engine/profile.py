"""Where the time of a call goes: `Module.profile`, `Session.profile`. Needs no torch."""

from __future__ import annotations

from ..base import atomic


class Profile(list):
    """The steps of a call in order, each a dict: label, kernel, origin (the user's line), sizes, bytes (read and written) and nanoseconds (median of the runs).

    call_nanoseconds: median time of the whole call into the engine.
    runs: the number of runs.

    `print` shows a table, with the most expensive kind of step first.
    """

    def __init__(self, steps, call_nanoseconds: float, runs: int, trace: str):
        super().__init__(steps)
        self.call_nanoseconds, self.runs, self._trace = call_nanoseconds, runs, trace

    def trace(self, path):
        """Writes the last run as a trace for ui.perfetto.dev or chrome://tracing: calls and steps on CPU tracks, or steps on a GPU track."""
        atomic.write_bytes(path, self._trace.encode())

    def __str__(self):
        total = sum(step["nanoseconds"] for step in self) or 1
        lines = [f"{len(self)} steps, {total / 1e3:.1f} us in them, {self.call_nanoseconds / 1e3:.1f} us a call (medians of {self.runs} runs)", "       us  share    GB/s  kernel        step"]
        kinds: dict[tuple, list] = {}
        for step in self:
            kinds.setdefault((step["kernel"], step["label"], step["origin"]), []).append(step)
        for (kernel, label, origin), steps in sorted(kinds.items(), key=lambda item: -sum(s["nanoseconds"] for s in item[1])):
            time, count = sum(s["nanoseconds"] for s in steps), f"{len(steps)} x " if len(steps) > 1 else ""
            rate = sum(s["bytes"] for s in steps) / time if time else 0.0
            lines.append(f"{time / 1e3:9.1f} {time / total:5.1%} {rate:8.1f}  {kernel:12}  {count}{label}  {origin}".rstrip())
        return "\n".join(lines)
