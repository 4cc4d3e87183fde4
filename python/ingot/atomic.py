"""The one way in which Python writes a file: whole or not at all (src/base/atomic_file.cpp is that of C++)."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile

from .errors import IoError

REMEDIES = {  # those of src/base/io_error.cpp
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space and try again"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "check the path"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions of the file and its folder"),
}


def write(path, make, ending=""):
    """Writes what `make(temporary path)` writes to `path`: the old file or the new one, never half.

    The temporary file is in a new folder of this user alone beside `path`, with a random name, so nobody can put a link in its way. A link in the place of `path`
    is replaced, not followed.
    """
    path = os.fspath(path)
    folder, name = os.path.split(path)
    private = None
    try:
        try:
            private = tempfile.mkdtemp(prefix=".ingot-", dir=folder or os.curdir)
            temporary = os.path.join(private, "file" + ending)
            make(temporary)
            _sync(temporary)
            os.replace(temporary, path)
            _sync(folder or os.curdir)
        finally:
            if private is not None:
                shutil.rmtree(private, ignore_errors=True)
    except OSError as problem:
        raise IoError(f"cannot write {path}: {problem.strerror or problem}", remedy=REMEDIES.get(problem.errno, "")) from None


def _sync(path):
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_bytes(path, data: bytes):
    def make(temporary):
        with open(temporary, "wb") as file:
            file.write(data)

    write(path, make)
