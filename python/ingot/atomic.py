"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os

from .errors import IoError

_REMEDIES = {  # those of src/base/mapped_file.cpp
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space and try again"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "check the path"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions of the file and its folder"),
}


def write(path, make, ending=""):
    """Writes what `make(temporary path)` writes to `path`: the old file or the new one, never half."""
    path = os.fspath(path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}{ending}")
    try:
        try:
            with open(temporary, "xb"):
                pass
            make(temporary)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
    except OSError as problem:
        raise IoError(f"cannot write {path}: {problem.strerror or problem}", remedy=_REMEDIES.get(problem.errno, "")) from None


def write_bytes(path, data: bytes):
    def make(temporary):
        with open(temporary, "wb") as file:
            file.write(data)

    write(path, make)
