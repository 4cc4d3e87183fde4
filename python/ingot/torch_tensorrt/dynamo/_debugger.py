"""`dynamo.Debugger`: shows what a build does, in files and in the log."""

from __future__ import annotations

import os

from ...base import atomic
from ...engine._library import drawn
from .. import logging as levels
from .._said import log, once
from ..runtime._settings import engines_of
from ._defaults import DEBUG_LOGGING_DIR

_active: list["Debugger"] = []


class Debugger:
    """A context for builds.

    Arguments:
        log_level: "debug", "info", "warning", "error", "internal_errors" or "graphs".
        capture_fx_graph_before, capture_fx_graph_after: lists of passes. With either, the library's graph before and after each of its own passes is written to the
            folder, as text and as SVG.
        save_engine_profile: calls inside the context write a profile of each engine that was built in it, as a trace for Perfetto.
        save_layer_info: the steps of each engine as JSON, `<name>_layer_info.json`.
        logging_dir: the folder.
        profile_format, engine_builder_monitor: accepted; "perfetto" is the format, and builds of more than two seconds show a bar on a terminal.
    """

    def __init__(self, log_level="debug", capture_fx_graph_before=None, capture_fx_graph_after=None, save_engine_profile=False, profile_format="perfetto", engine_builder_monitor=True,
                 logging_dir=DEBUG_LOGGING_DIR, save_layer_info=False):  # fmt: skip
        self.level, self.folder = levels.level_of(log_level), os.fspath(logging_dir)
        self.graphs, self.profile, self.layers = bool(capture_fx_graph_before or capture_fx_graph_after), save_engine_profile, save_layer_info
        if save_engine_profile and profile_format != "perfetto":
            once("Debugger profile", f"Debugger: profiles are written as traces for Perfetto, not as {profile_format!r}")
        self._profiled: list = []

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        self._levels = [(logger, logger.level) for logger in levels._LOGGERS]
        levels.set_level(self.level)
        self._dump, self._before = os.environ.get("INGOT_DUMP"), set(os.listdir(self.folder))
        if self.graphs:
            os.environ["INGOT_DUMP"] = self.folder
        _active.append(self)
        return self

    def __exit__(self, *problem):
        _active.remove(self)
        for logger, level in self._levels:
            logger.setLevel(level)
        if self.graphs:
            os.environ.pop("INGOT_DUMP") if self._dump is None else os.environ.__setitem__("INGOT_DUMP", self._dump)
            self._draw()
        for engine in self._profiled:
            engine.disable_profiling()

    def _draw(self):
        for name in sorted(set(os.listdir(self.folder)) - self._before):
            if name.endswith(".txt"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    atomic.write_bytes(os.path.join(self.folder, name[:-4] + ".svg"), drawn(file.read(), "svg"))

    def note(self, engines):
        for engine in engines:
            log.debug("built %s: %s", engine.name, engine.extra_repr())
            if self.layers:
                with open(os.path.join(self.folder, f"{engine.name}_layer_info.json"), "w") as file:
                    file.write(engine.get_layer_info())
            if self.profile:
                engine.enable_profiling(self.folder)
                self._profiled.append(engine)


def note(module):
    """Tells the contexts around a build about the module that was built."""
    for debugger in _active:
        debugger.note(engines_of(module))
