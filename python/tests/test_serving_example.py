"""examples/python/serving.py: continuous batching with a model of transformers, which checks its own tokens."""

from __future__ import annotations

import importlib.util
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


def test_as_the_documentation_has_it():
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, timeout=600,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same tokens as each request alone" in done.stdout
    happened = re.search(r"(\d+) of them mixed; (\d+) rows shared, (\d+) copied on write, (\d+) preemptions", done.stdout)
    assert happened and all(int(n) > 0 for n in happened.groups()), done.stdout


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("serving_example", PROGRAM)
    module = sys.modules["serving_example"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["serving_example"]


@pytest.mark.parametrize("option, word, accepted", [
    ("--requests", "0", "1 to 1000"), ("--requests", "1001", "1 to 1000"), ("--requests", "4x", "1 to 1000"),
    ("--requests", "", "1 to 1000"), ("--pages", "7", "8 to 10000"), ("--seed", "-1", "0 to"), ("--seed", "\u0661", "0 to"),
])  # fmt: skip
def test_refusals(program, capsys, option, word, accepted):
    with pytest.raises(SystemExit) as end:
        program.parse([f"{option}={word}"])
    assert end.value.code == 2
    assert f"argument {option}: '{word}' is not accepted; a whole number from {accepted}" in capsys.readouterr().err
