"""emulator/suite/coverage: says which entry point never ran, and fails then."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "coverage"
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


if __name__ == "__main__":
    unittest.main()
