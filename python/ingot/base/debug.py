"""The debug switches INGOT_LOG, INGOT_DUMP and INGOT_DISABLE, as far as they are about what Python does to a graph. The library reads them too (src/pipeline.cpp, src/ir/pass.cpp)."""

from __future__ import annotations

import contextlib
import os
import sys

from ..errors import IoError, OptionError
from . import atomic, processes

_lock = processes.Lock()
_own: dict[str, str] = {}     # what may be left out, and what for
_needed: set[str] = set()     # those of them that may not
_given: str | None = None     # INGOT_DISABLE while the library runs, which sees only its own names
_calls = 0                    # of the library at the moment


def declare(name: str, purpose: str, needed: bool = False):
    """Makes a name known to INGOT_DISABLE. needed: without it some graphs cannot be compiled, so INGOT_DISABLE may not name it."""
    _own[name] = purpose
    if needed:
        _needed.add(name)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def is_disabled(name: str) -> bool:
    """True if INGOT_DISABLE names it. Names that are not declared here are passes of the library; it refuses unknown ones."""
    return name in _disabled()


def check_disabled():
    """OptionError if INGOT_DISABLE names something that is needed."""
    for name in _disabled():
        if name in _needed:
            raise OptionError(f'INGOT_DISABLE names "{name}", which cannot be left out: {_own[name]}', remedy="leave this name out of INGOT_DISABLE")


def _disabled() -> list[str]:
    with _lock():
        return _names(os.environ.get("INGOT_DISABLE", "") if _given is None else _given)


@contextlib.contextmanager
def for_library():
    """While the library compiles: INGOT_DISABLE has the library's own names only. It refuses others."""
    global _given, _calls
    with _lock():
        if not _calls and _own.keys() & _names(os.environ.get("INGOT_DISABLE", "")):
            _given = os.environ["INGOT_DISABLE"]
            # With a comma alone the switch is still set, so no plan comes from the cache.
            os.environ["INGOT_DISABLE"] = ",".join(name for name in _names(_given) if name not in _own) or ","
        _calls += 1
    try:
        yield
    finally:
        with _lock():
            _calls -= 1
            if not _calls and _given is not None:
                os.environ["INGOT_DISABLE"], _given = _given, None


def log(what: str, seconds: float | None = None, size: str = ""):
    """One line on stderr, in the form of the library's. INGOT_LOG=info asks for it; =debug also for the size."""
    level = os.environ.get("INGOT_LOG", "")
    if level in ("info", "debug"):  # the library refuses other values
        took = "" if seconds is None else f" {seconds * 1e3:8.2f} ms"
        print(f"ingot: {what:<24}{took}{f'  {size}' if size and level == 'debug' else ''}".rstrip(), file=sys.stderr, flush=True)


def dumps() -> bool:
    """Whether INGOT_DUMP names a folder for graphs."""
    return bool(os.environ.get("INGOT_DUMP"))


def dump(name: str, text: str):
    """Writes a graph's text to that folder."""
    folder = os.environ["INGOT_DUMP"]
    with contextlib.suppress(OSError):  # writing the file reports it
        os.makedirs(folder, exist_ok=True)
    try:
        atomic.write_bytes(os.path.join(folder, f"{name}.txt"), text.encode())
    except IoError as problem:
        raise IoError(f"INGOT_DUMP: {problem.message}", remedy="name a folder that can be written, or unset INGOT_DUMP") from None
