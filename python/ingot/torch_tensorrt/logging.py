"""`torch_tensorrt.logging`: log levels, for this package and ingot together.

The library's own log is chosen with INGOT_LOG before ingot is imported.
"""

from __future__ import annotations

import logging

from ._said import log

TRT_LOGGER = log  # for scripts that pass it on; TensorRT's own logger does not exist here
_LOGGERS = (log, logging.getLogger("ingot"))
_LEVELS = {
    "internal_errors": logging.CRITICAL, "internal_error": logging.CRITICAL, "errors": logging.ERROR, "error": logging.ERROR, "warnings": logging.WARNING,
    "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG, "graphs": logging.DEBUG - 5,
}  # fmt: skip


def level_of(level) -> int:
    """A level of Python's logging, from a level or from its name here."""
    if isinstance(level, str):
        if level.lower() not in _LEVELS:
            raise ValueError(f"log level {level!r} is not known: {', '.join(_LEVELS)}")
        return _LEVELS[level.lower()]
    return int(level)


def set_level(level, logger: logging.Logger | None = None):
    """Sets the level of both loggers ("torch_tensorrt" and "ingot"), or of the given one."""
    for each in (logger,) if logger is not None else _LOGGERS:
        each.setLevel(level_of(level))


class _At:
    """A context manager that sets the level and restores the old one."""

    level = logging.INFO

    def __enter__(self):
        self._before = [logger.level for logger in _LOGGERS]
        set_level(self.level)
        return self

    def __exit__(self, *problem):
        for logger, level in zip(_LOGGERS, self._before):
            logger.setLevel(level)


class internal_errors(_At):
    """Only what ends a program is logged inside."""

    level = _LEVELS["internal_errors"]


class errors(_At):
    """Only errors are logged inside."""

    level = logging.ERROR


class warnings(_At):
    """Errors and warnings are logged inside."""

    level = logging.WARNING


class info(_At):
    """What is done, and what a setting means here, is logged inside."""


class debug(_At):
    """Everything is logged inside."""

    level = logging.DEBUG


class graphs(_At):
    """Everything is logged inside; graphs are what `dynamo.Debugger` writes."""

    level = _LEVELS["graphs"]
