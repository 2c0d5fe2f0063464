"""The suite's own scripts: coverage says which entry point never ran, and fails then; run reads the rows."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "coverage"


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
run = load("run")
INDEX = """# a comment
module compute_80 /a.ptx
entry one sm_80:3:0
entry two
module compute_90a /b.ptx
entry one
"""


class Coverage(unittest.TestCase):
    def judge(self, index, *files):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "ran").mkdir()
            (path / "ptx.index").write_text(index)
            for number, text in enumerate(files):
                (path / "ran" / str(number)).write_text(text)
            return subprocess.run([sys.executable, SCRIPT, path / "ptx.index", path / "ran"], capture_output=True, text=True)

    def test_all_of_every_arch(self):
        done = self.judge(INDEX, "compute_80 one\ncompute_90a one\n", "compute_80 one\ncompute_80 two\n")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("compute_80: 2 of 2", done.stdout)

    def test_one_that_is_missing_is_named(self):
        done = self.judge(INDEX, "compute_80 one\ncompute_80 two\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("never ran: compute_90a one", done.stdout)
        self.assertNotIn("never ran: compute_80", done.stdout)

    def test_no_entries_and_no_files_fail(self):
        self.assertEqual(self.judge("# nothing\n", "").returncode, 1)
        self.assertEqual(self.judge(INDEX).returncode, 1)


class Rows(unittest.TestCase):
    def test_braces_are_every_combination(self):
        self.assertEqual(run.expanded("q4 {d64|d192 v128} {f16|}"), ["q4 d64 f16", "q4 d64 ", "q4 d192 v128 f16", "q4 d192 v128 "])

    def test_a_row_goes_on_in_lines_that_begin_with_a_blank(self):
        known = run.rows('# no row\n\none l4 58 tessera-emu verify\n    "b1 h2" --device cuda\n# none\ntwo h200 1 x\n')
        self.assertEqual(known, {"one": ["l4", "58", "tessera-emu", "verify", "b1 h2", "--device", "cuda"],
                                 "two": ["h200", "1", "x"]})

    def test_what_is_left_out_is_said(self):
        words, sentences = run.command("/b/x_test", ["--without", "A.b", "too long", "--without", "A.c*", "no driver", "-v"])
        self.assertEqual(words, ["/b/x_test", "-v", "--gtest_filter=-A.b:A.c*"])
        self.assertEqual(sentences, ["skipped: x_test A.b: too long", "skipped: x_test A.c*: no driver"])

    def test_every_row_of_the_suite_can_be_read(self):
        known = run.rows((HERE / "rows").read_text())
        self.assertGreater(len(known), 10)
        for name, words in known.items():
            self.assertIn(words[0], ("l4", "a100", "h200"), name)
            self.assertGreater(int(words[1]), 0, name)


if __name__ == "__main__":
    unittest.main()
