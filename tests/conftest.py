"""For every test: turns the cache of plans off, because a cached plan would be used without testing the compiler."""

import os

os.environ["INGOT_CACHE"] = "off"
