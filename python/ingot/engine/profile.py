"""Where the time of a call goes: `Module.profile`, `Session.profile`. Needs no torch."""

from __future__ import annotations

from html import escape

from ..base import atomic
from ..base.notebook import bar


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

    def _heading(self):
        return f"{len(self)} steps, {self._total / 1e3:.1f} us in them, {self.call_nanoseconds / 1e3:.1f} us a call (medians of {self.runs} runs)"

    @property
    def _total(self):
        return sum(step["nanoseconds"] for step in self) or 1

    def _rows(self):
        """For each kind of step, the most expensive first: microseconds, share, GB/s, kernel, what it computes, origin."""
        kinds: dict[tuple, list] = {}
        for step in self:
            kinds.setdefault((step["kernel"], step["label"], step["origin"]), []).append(step)
        for (kernel, label, origin), steps in sorted(kinds.items(), key=lambda item: -sum(s["nanoseconds"] for s in item[1])):
            time, count = sum(s["nanoseconds"] for s in steps), f"{len(steps)} x " if len(steps) > 1 else ""
            yield time / 1e3, time / self._total, sum(s["bytes"] for s in steps) / time if time else 0.0, kernel, count + label, origin

    def __str__(self):
        lines = [f"{us:9.1f} {share:5.1%} {rate:8.1f}  {kernel:12}  {label}  {origin}".rstrip() for us, share, rate, kernel, label, origin in self._rows()]
        return "\n".join([self._heading(), "       us  share    GB/s  kernel        step", *lines])

    def _repr_html_(self):
        """The table in a notebook, with a bar for each share."""
        rows = "".join(
            f"<tr><td>{us:.1f}</td><td>{bar(share)} {share:.1%}</td><td>{rate:.1f}</td><td>{escape(kernel)}</td><td>{escape(label)}</td><td>{escape(origin)}</td></tr>"
            for us, share, rate, kernel, label, origin in self._rows()
        )
        head = "".join(f"<th>{name}</th>" for name in ("us", "share", "GB/s", "kernel", "step", "origin"))
        return f"<p>{escape(self._heading())}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
