"""For every test: what compiles, compiles. A plan that was built before would be taken otherwise (option cache), and the compiler would not be tested."""

import os

os.environ["INGOT_CACHE"] = "off"
