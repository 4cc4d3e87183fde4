"""All programs of the suite, in the order of their files."""

import bindings  # noqa: F401
import states  # noqa: F401
import views  # noqa: F401
import writes  # noqa: F401
from program import ALL as PROGRAMS

__all__ = ["PROGRAMS"]
