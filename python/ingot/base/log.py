"""The package's logger, `logging.getLogger("ingot")`, which also gets the library's lines."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("ingot")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)  # in the order of ingot_log_level


class _WhoSpeaks(logging.Filter):
    """Where no handler is set up, Python prints the bare message of a warning: it gets the name in front."""

    def filter(self, record):
        if not log.hasHandlers():
            record.msg = f"ingot: {record.msg}"
        return True


log.addFilter(_WhoSpeaks())


def line(level: int, text: str):
    """A line that INGOT_LOG asks for, or a warning of the library. On standard error where logging would drop it."""
    if log.hasHandlers() and log.isEnabledFor(_LEVELS[level]):
        log.log(_LEVELS[level], "%s", text)
        return
    try:
        print(f"ingot: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a closed stream
        pass
