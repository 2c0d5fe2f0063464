"""cmake/nvcc-report on words that nvcc has said: what it reads, what it refuses."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "nvcc-report"
loader = importlib.machinery.SourceFileLoader("nvcc_report", str(SCRIPT))
sys.dont_write_bytecode = True
report = importlib.util.module_from_spec(importlib.util.spec_from_loader("nvcc_report", loader))
loader.exec_module(report)

CLEAN = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6ladder6scalarIfEEvi' for 'sm_80'
ptxas info    : Function properties for _ZN6ladder6scalarIfEEvi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem, 368 bytes cmem[0], 16 bytes cmem[2]
ptxas info    : Compile time = 2.980 ms
ptxas info    : Compiling entry function '_ZN6ladder6scalarIfEEvi' for 'sm_90a'
ptxas info    : Function properties for _ZN6ladder6scalarIfEEvi
    24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size
ptxas info    : Function properties for helper
    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def compile_with(folder, said, code=0):
    """Runs the launcher with a compiler that says this."""
    compiler = pathlib.Path(folder) / "nvcc"
    (pathlib.Path(folder) / "said").write_text(said)
    compiler.write_text(f'#!/bin/sh\ncat "{folder}/said" >&2\ntouch "{folder}/x.cu.o"\nexit {code}\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    command = [sys.executable, SCRIPT, "run", compiler, "-x", "cu", "-c", "x.cu", "-o", f"{folder}/x.cu.o"]
    return subprocess.run(command, capture_output=True, text=True)


def compile_to_ptx(folder, archs):
    """The same with a compiler that leaves PTX for these archs where --keep-dir says, and other files."""
    compiler = pathlib.Path(folder) / "nvcc"
    lines = ["import pathlib, sys", "keep = pathlib.Path(sys.argv[sys.argv.index('--keep-dir') + 1])",
             "assert '--keep' in sys.argv", "(keep / 'x.fatbin').write_text('code')"]
    for arch in archs:
        text = f"// .entry no\\n.version 8.8\\n.target sm_{arch}\\n.visible .entry _ZN6ladder6scalarIfEEvi(\\n)\\n{{}}\\n.entry late(){{}}\\n"
        lines.append(f"(keep / 'x.compute_{arch}.ptx').write_text('{text}')")
    lines += [f"sys.stderr.write({CLEAN!r})", f"pathlib.Path('{folder}/x.cu.o').touch()"]
    compiler.write_text(f"#!{sys.executable}\n" + "\n".join(lines) + "\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    command = [sys.executable, SCRIPT, "run", compiler, "-x", "cu", "-c", "x.cu", "-o", f"{folder}/x.cu.o"]
    return subprocess.run(command, capture_output=True, text=True)


class Parsing(unittest.TestCase):
    def test_every_kernel_and_arch(self):
        first, second = report.kernels_in(CLEAN)
        self.assertEqual((first["arch"], first["registers"], first["shared_static_bytes"]), ("sm_80", 40, 4096))
        self.assertEqual((first["constant_bytes"], first["stack_bytes"], first["spill_load_bytes"]), (384, 0, 0))
        self.assertEqual((second["arch"], second["registers"], second["spill_store_bytes"]), ("sm_90a", 255, 8))
        self.assertEqual(second["stack_bytes"], 64, "a function that was not inlined counts as its kernel's")

    def test_what_is_a_warning(self):
        for line in ("ptxas warning : Value of .maxnreg ignored", "x.cu(3): warning #177-D: unused", "x.h:3:4: warning: sign"):
            self.assertTrue(report.WARNING.search(line), line)
        for line in ("ptxas info    : Used 40 registers", "Compiling 'warnings_test'", 'Remark: "-diag-suppress <warning-number>"'):
            self.assertFalse(report.WARNING.search(line), line)


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_a_clean_compilation_leaves_a_report_and_says_nothing(self):
        done = compile_with(self.path, CLEAN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = json.loads((self.path / "x.cu.o.report.json").read_text())
        self.assertEqual([k["arch"] for k in found["kernels"]], ["sm_80", "sm_90a"])
        self.assertEqual((self.path / "x.cu.o.log").read_text(), CLEAN)

    def test_a_warning_fails_and_leaves_no_object(self):
        done = compile_with(self.path, CLEAN + "ptxas warning : setmaxnreg ignored\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("setmaxnreg", done.stderr)
        self.assertFalse((self.path / "x.cu.o").exists())
        self.assertFalse((self.path / "x.cu.o.report.json").exists())

    def test_products_that_wait_for_each_other_fail_like_warnings(self):
        for code in ("C7508", "C7510", "C7512", "C7519"):
            said = f"ptxas info    : ({code}) wgmma.mma_async instructions are serialized\n"
            done = compile_with(self.path, CLEAN + said)
            self.assertEqual(done.returncode, 1, code)
            self.assertIn(code, done.stderr)
            self.assertFalse((self.path / "x.cu.o").exists())
        loss = "ptxas info    : (C7506) Potential Performance Loss: 'setmaxnreg' ignored\n"
        self.assertEqual(compile_with(self.path, CLEAN + loss).returncode, 1)
        self.assertEqual(compile_with(self.path, CLEAN + "ptxas info    : (C7600) something else\n").returncode, 0)

    def test_an_error_keeps_the_compilers_code(self):
        self.assertEqual(compile_with(self.path, "x.cu(1): error: no\n", 2).returncode, 2)

    def test_reports_merge_and_a_missing_one_is_named(self):
        compile_with(self.path, CLEAN)
        output = self.path / "resources.json"
        merge = [sys.executable, SCRIPT, "merge", output, self.path / "x.cu.o", self.path / "host.cpp.o"]
        self.assertEqual(subprocess.run(merge).returncode, 0)
        self.assertEqual(len(json.loads(output.read_text())["files"]), 1)
        os.remove(self.path / "x.cu.o.report.json")
        self.assertIn("x.cu.o", subprocess.run(merge, capture_output=True, text=True).stderr)

    def test_ptx_is_kept_beside_the_object_and_listed(self):
        self.assertEqual(compile_to_ptx(self.path, ("70",)).returncode, 0)
        self.assertEqual(compile_to_ptx(self.path, ("80", "90a")).returncode, 0)
        kept = sorted(each.name for each in self.path.glob("*.ptx"))
        self.assertEqual(kept, ["x.cu.o.compute_80.ptx", "x.cu.o.compute_90a.ptx"], "none of an earlier compilation")
        index = self.path / "ptx.index"
        listing = [sys.executable, SCRIPT, "ptx", index, self.path / "x.cu.o", self.path / "host.cpp.o"]
        self.assertEqual(subprocess.run(listing).returncode, 0)
        lines = index.read_text().splitlines()[1:]
        made = "entry _ZN6ladder6scalarIfEEvi sm_80:40:0 sm_90a:255:64"
        self.assertEqual(lines, [f"module compute_80 {self.path}/x.cu.o.compute_80.ptx", made, "entry late",
                                 f"module compute_90a {self.path}/x.cu.o.compute_90a.ptx", made, "entry late"])

    def test_times_fail_over_the_limit(self):
        output = self.path / "resources.json"
        for megabytes, code in ((200, 0), (3073, 1)):
            output.write_text(json.dumps({"files": [{"source": "/a/x.cu", "seconds": 3.5, "peak_megabytes": megabytes, "kernels": []}]}))
            done = subprocess.run([sys.executable, SCRIPT, "times", output], capture_output=True, text=True)
            self.assertEqual(done.returncode, code)
            self.assertIn("x.cu", done.stdout)


if __name__ == "__main__":
    unittest.main()
