"""Every python block of docs/python.md, docs/fp8.md, docs/options.md and docs/serving.md runs as written."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import need

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGES = [page for name in ("python.md", "fp8.md", "options.md", "serving.md") if (page := DOCS / name).exists()]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M)]


def test_there_are_blocks():
    if not PAGES:
        pytest.skip("the documentation is not here")
    assert len(BLOCKS) >= 3 * len(PAGES)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block(number):
    for framework in ("torch", "jax", "transformers"):
        if re.search(rf"^import {framework}$|^from {framework} import", BLOCKS[number], re.M):
            need(framework)
    done = subprocess.run([sys.executable, "-c", BLOCKS[number]], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"JAX_PLATFORMS": "cpu"})  # fmt: skip
    assert done.returncode == 0, done.stderr
