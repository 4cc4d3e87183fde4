"""Log messages that appear once in a process: a name means something else here, or nothing."""

from __future__ import annotations

import logging

log = logging.getLogger("torch_tensorrt")
_said: set[str] = set()


def once(key: str, text: str, level: int = logging.INFO):
    """Logs `text` the first time that `key` comes while the level is shown."""
    if key not in _said and log.isEnabledFor(level):
        _said.add(key)
        log.log(level, "%s", text)


def forget():
    """Lets all messages appear again (for tests)."""
    _said.clear()
