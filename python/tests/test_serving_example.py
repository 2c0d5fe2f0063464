"""examples/python/serving.py: continuous batching with a model of transformers, which checks its own tokens."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import need

need("torch")
need("transformers")

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "serving.py"
if not PROGRAM.exists():
    pytest.skip("the examples are not here", allow_module_level=True)


def run(*words):
    return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"})  # fmt: skip


def test_as_the_documentation_has_it():
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same tokens as each request alone" in done.stdout
    happened = re.search(r"(\d+) of them mixed; (\d+) rows shared, (\d+) copied on write, (\d+) preemptions", done.stdout)
    assert happened and all(int(n) > 0 for n in happened.groups()), done.stdout


@pytest.mark.parametrize("option, word, accepted", [
    ("--requests", "0", "1 to 1000"), ("--requests", "4x", "1 to 1000"), ("--pages", "7", "8 to 10000"), ("--seed", "-1", "0 to"),
])  # fmt: skip
def test_refusals(option, word, accepted):
    done = run(f"{option}={word}")
    assert done.returncode == 2 and f"argument {option}: '{word}' is not accepted; a whole number from {accepted}" in done.stderr
