"""The package around the function: command line, type information, the ABI it promises."""

from __future__ import annotations

import email
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tessera

PACKAGE = pathlib.Path(tessera.__file__).parent
TESTS = pathlib.Path(__file__).parent


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def need_command_line():
    if not (PACKAGE / "bin" / "tessera").exists():
        pytest.skip("this package was built without the command line")


def test_version():
    done = run(sys.executable, "-c", "import tessera; print(tessera.__version__)", env=os.environ)
    assert done.stdout.strip() == tessera.__version__ and tessera.__version__.count(".") == 2


def test_import_brings_no_framework():
    program = "import sys, tessera; print([m for m in ('numpy', 'torch', 'jax', 'cupy', 'transformers') if m in sys.modules])"
    done = run(sys.executable, "-c", program)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_command_line_lists_the_same_kernels():
    need_command_line()
    done = run(sys.executable, "-m", "tessera", "kernels", "--json")
    assert done.returncode == 0, done.stderr
    listed = {row["name"] for row in json.loads(done.stdout)["kernels"]}
    q = np.zeros((1, 1, 1, 8), np.float32)
    assert tessera.plan(q, q, q)["kernel"] in listed


def test_command_line_computes_what_the_function_does(tmp_path):
    need_command_line()
    rng = np.random.default_rng(0)
    names = ("query", "key", "value")
    arrays = [rng.standard_normal((1, 2, 9, 16), dtype=np.float32) for _ in names]
    for name, a in zip(names, arrays):
        np.save(tmp_path / f"{name}.npy", a)
    files = [word for name in names for word in (f"--{name}", str(tmp_path / f"{name}.npy"))]
    done = run(sys.executable, "-m", "tessera", "attend", *files, "--output", str(tmp_path / "o.npy"),
               "--causal", "bottom-right")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert np.array_equal(np.load(tmp_path / "o.npy"), tessera.attend(*arrays, causal="bottom-right"))


def test_type_information_is_there():
    for name in ("py.typed", "__init__.pyi", "_binding.pyi"):
        assert (PACKAGE / name).exists(), name
    # The stub and the function must not drift apart.
    stub = (PACKAGE / "_binding.pyi").read_text()
    import inspect

    for name in inspect.signature(tessera.attend).parameters:
        assert f"    {name}:" in stub, name


def test_binary_exports_and_needs_little():
    (extension,) = PACKAGE.glob("_binding*.so")
    assert extension.name == "_binding.abi3.so"
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed here")
    exported = run("nm", "-D", "--defined-only", str(extension)).stdout.split("\n")
    assert [line.split()[-1] for line in exported if line] == ["PyInit__binding"]
    needed = run("nm", "-D", "--undefined-only", str(extension)).stdout
    foreign = [s for s in needed.split() if s.lower().startswith(("cuda", "_ztvn3c10", "npy", "pyarray"))]
    assert foreign == []


def test_the_wheel_says_what_it_is():
    """The metadata as an index would show it: licence with its text, readme, what it needs."""
    wheel = os.environ.get("TESSERA_WHEEL")
    if wheel is None:
        pytest.skip("TESSERA_WHEEL names no wheel (scripts/test-python builds one and names it)")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
        licence = archive.read(f"{pathlib.PurePosixPath(name).parent}/licenses/{metadata['License-File']}").decode()
    assert metadata["Name"] == "tessera" and metadata["Version"] == tessera.__version__
    assert metadata["License-Expression"] == "Apache-2.0" and "Version 2.0, January 2004" in licence
    assert metadata["Requires-Python"] == ">=3.11" and not [r for r in metadata.get_all("Requires-Dist", []) if "extra" not in r]
    assert metadata["Description-Content-Type"] == "text/markdown" and "# Tessera from Python" in metadata.get_payload()
    assert metadata["Summary"] and metadata["Keywords"]


def other_pythons():
    """Every CPython of another minor version that answers on this machine."""
    found = {}
    for minor in range(11, 16):
        for path in (shutil.which(f"python3.{minor}"), *glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python3"))):
            if path is None or minor == sys.version_info.minor or minor in found:
                continue
            try:
                if run(path, "-c", "pass").returncode == 0:
                    found[minor] = path
            except OSError:
                continue
    return found


def test_the_same_binary_in_other_pythons():
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other CPython from 3.11 on is installed here")
    program = (
        "import array, tessera\n"
        "q = memoryview(array.array('f', [1, 2, 3, 4])).cast('B').cast('f', (1, 1, 2, 2))\n"
        "o = array.array('f', [0] * 4)\n"
        "tessera.attend(q, q, q, causal='top-left', out=memoryview(o).cast('B').cast('f', (1, 1, 2, 2)))\n"
        "assert o[0] == 1 and o[1] == 2 and 2.9 < o[2] < 3, o\n"
        "try: tessera.attend(q, q)\n"
        "except TypeError as e: print('fine', e)\n"
    )
    for minor, path in pythons.items():
        done = run(path, "-c", program, env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)})
        assert done.stdout.startswith("fine"), f"3.{minor}: {done.stderr}"


def header_flags():
    """Include paths of the real headers that our own copies of their layouts are held against."""
    flags = []
    try:
        import jax

        flags += ["-DWITH_XLA", "-isystem", jax.ffi.include_dir()]
    except Exception:
        pass
    try:
        import torch

        header = pathlib.Path(torch.__file__).parent / "include"
        if (header / "ATen" / "dlpack.h").exists():
            flags += ["-DWITH_DLPACK", "-isystem", str(header)]
    except Exception:
        pass
    return flags


def test_layouts_match_the_real_headers():
    compiler = shutil.which("c++") or shutil.which("g++")
    binding = TESTS.parent / "binding"
    if compiler is None or not binding.exists():
        pytest.skip("no C++ compiler, or no sources, here")
    flags = header_flags()
    if not flags:
        pytest.skip("neither JAX's nor PyTorch's headers are installed here")
    done = run(compiler, "-std=c++20", "-fsyntax-only", "-I", str(binding), *flags, str(TESTS / "abi_check.cpp"))
    assert done.returncode == 0, done.stderr
