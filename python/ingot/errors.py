"""One class per error code of ingot.h."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of ingot.

    Attributes: message (what happened to which value), origin (the user's file and line, or ""), remedy (what to do, or "").
    """

    def __init__(self, message: str, origin: str = "", remedy: str = ""):
        text = message
        if origin and origin not in message:
            text += f"\n  at {origin}"
        if remedy:
            text += f"\n  remedy: {remedy}"
        super().__init__(text)
        self.message, self.origin, self.remedy = message, origin, remedy


class UnsupportedError(Error):
    """The model, or an operation on a module, is not supported. For operators it lists every one with the user's lines."""


class InputError(Error, ValueError):
    """A tensor, shape, dtype or range given by the caller does not fit."""


class OptionError(Error, ValueError):
    """An unknown option or a value it cannot take."""


class FormatError(Error):
    """A file is damaged, truncated, or of another format."""


class VersionError(Error):
    """A file, a driver or a library is too new or too old, or a plan has no program for the device."""


class MemoryError(Error, MemoryError):  # noqa: A001 - the public name; also Python's own
    """Memory could not be allocated."""


class DeviceError(Error):
    """A device or one of its libraries is missing or failed."""


class AccuracyError(Error):
    """A compiled model is less accurate than was asked for."""


class CancelledError(Error):
    """A build was cancelled by its progress callback."""


class IoError(Error, OSError):
    """A file could not be opened, read or written."""


class SingularError(Error, RuntimeError):
    """A matrix has no inverse, solution or factor that the model asks for. From modules and torch.compile it is a torch.linalg.LinAlgError too."""


class InternalError(Error):
    """A bug in ingot."""


# In the order of `ingot_status` in ingot.h.
_BY_CODE = {
    1: InternalError,
    2: UnsupportedError,
    3: InputError,
    4: OptionError,
    5: FormatError,
    6: VersionError,
    7: MemoryError,
    8: DeviceError,
    9: AccuracyError,
    10: CancelledError,
    11: IoError,
    12: SingularError,
}


def by_code(code: int, message: str, origin: str = "", remedy: str = "") -> Error:
    """The error for a status of the C API."""
    return _BY_CODE.get(code, InternalError)(message, origin, remedy)


def code_of(problem: Error) -> int:
    return next((code for code, kind in _BY_CODE.items() if isinstance(problem, kind)), 1)
