"""Shared by all tests of the package: which frameworks are here, and the printed reasons for those that are not."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys

import pytest

# Two frameworks in one process, and tests that watch memory: no preallocation, and CPU unless asked.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# XLA compiles hundreds of programs here and runs each once: what it makes need not be fast.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 " + os.environ.get("XLA_FLAGS", "")

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def need(name: str):
    """The module, or a skip that says what is missing."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken installation is as good as none, and its reason is worth printing
        pytest.skip(f"{name} cannot be imported here ({type(error).__name__}: {error})", allow_module_level=True)


@pytest.fixture(autouse=True)
def default_threads():
    import tessera

    yield
    tessera.set_threads(0)
