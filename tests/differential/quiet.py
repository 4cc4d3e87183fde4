"""Silences torch's messages about odd programs inside `hushed`. Import it before torch."""

import contextlib
import linecache
import logging
import os
import warnings

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("INGOT_CACHE", "off")  # so that each program is compiled by each way

import torch  # noqa: E402

# torch keeps a stack trace for every node and guard, and checks on disk whether each frame's file has changed. That took half of a capture's time.
linecache.checkcache = lambda filename=None: None


@contextlib.contextmanager
def hushed():
    log = logging.getLogger("ingot")
    level = log.level
    log.setLevel(logging.ERROR)
    torch._logging.set_logs(all=logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            log.setLevel(level)
            torch._logging.set_logs()
