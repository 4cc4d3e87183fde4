"""What torch says of odd programs while it runs and captures them: nothing here. Import it before torch."""

import linecache
import logging
import os
import warnings

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch  # noqa: E402

# torch keeps a stack trace for every node and guard; looking up on disk whether each frame's file has changed was half of a capture.
linecache.checkcache = lambda filename=None: None


def hush():
    warnings.simplefilter("ignore")
    logging.getLogger("ingot").setLevel(logging.ERROR)
    torch._logging.set_logs(all=logging.CRITICAL)


hush()
