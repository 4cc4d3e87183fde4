"""Atomic writes of files from Python: whole or not at all. src/base/atomic_file.cpp does the same in C++."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile

from ..errors import InputError, IoError

REMEDIES = {  # the same as in src/base/io_error.cpp
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space and try again"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "check the path"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions of the file and its folder"),
}


def encoded(path) -> bytes:
    """A path as bytes for the system."""
    text = os.fsencode(path)
    if b"\0" in text:  # C would end the path here
        raise InputError(f"no file has the name {os.fsdecode(text)[:100]!r}: it has a null character")
    return text


def write(path, make, ending=""):
    """Calls `make(temporary path)` and moves its file to `path`: the file is the old one or the new one, never half.

    The temporary file is in a new folder next to `path` that only this user can open, with a random name, so nobody can plant a link. A link at `path` is
    replaced, not followed; anything else that is not a regular file, such as a pipe, is refused.
    """
    path = os.fsdecode(encoded(path))
    folder, name = os.path.split(path)
    private = None
    try:
        _refuse_what_is_no_file(path)
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


def _refuse_what_is_no_file(path):
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as problem:
        if problem.errno == errno.ELOOP:  # a link is replaced wherever it leads
            return
        raise
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError("it is not a regular file")


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
