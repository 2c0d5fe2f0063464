"""`python -m tessera` is the command line."""

from ._cli import main

main()
