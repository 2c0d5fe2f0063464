"""The command `tessera`: hands over to the program that the package carries."""

from __future__ import annotations

import os
import pathlib
import sys


def binary() -> pathlib.Path:
    """Where the program is; it exists unless the package was built with TESSERA_CLI=OFF."""
    return pathlib.Path(__file__).with_name("bin") / "tessera"


def main() -> None:
    program = binary()
    if not program.exists():
        sys.exit(f"tessera: this package was built without the command line ({program} is missing)")
    if not os.access(program, os.X_OK):  # archives can lose the permission bit
        program.chmod(program.stat().st_mode | 0o111)
    os.execv(program, ["tessera", *sys.argv[1:]])
