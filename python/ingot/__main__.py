"""`python -m ingot`: the command `ingot`."""

from ._cli import main

main()
