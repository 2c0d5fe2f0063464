"""scripts/gpu-check and scripts/gpu-numbers on a machine that is made up: programs that say what the real ones say."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Stands for `tessera`. FAKE_GPU=no: no GPU here. FAKE_NCU=no: no Nsight Compute. FAKE_WRONG=yes: verify fails.
TESSERA = r"""#!{python}
import json, os, sys
words = sys.argv[1:]
if os.environ.get("FAKE_GPU") == "no":
    print("tessera: no driver", file=sys.stderr)
    sys.exit(3)
machine = dict(device="cuda", gpu="NVIDIA Fake 9", driver="580.1", cuda_driver="13.0")
run = dict(date="2026-01-01T00:00:00Z", commit="abc", command="/somewhere/tessera " + " ".join(words), machine=machine)
def row(kernel, rung, p50, over="", gain=1.0):
    times = dict(error_over_bound=0.5, p50_us=p50, p90_us=p50, single=dict(p50_us=p50 + 5), cold_l2=dict(p50_us=p50 + 2),
                 floor_us=2.0, floor_percent=200 / p50, step_over=over, step_gain=gain)
    return dict(name="mission512", words="b2 h8 q512", flops=1e9, bytes=4e6, kernel=kernel, rung=rung, verified=True) | times
if "--target" in words:
    print("20 launches", file=sys.stderr)
    sys.exit(int(os.environ.get("FAKE_HOPPER", "0")) if "sm90" in words else 0)
elif words[0] == "verify":
    wrong = os.environ.get("FAKE_WRONG") == "yes"
    kernel = dict(name="sm80", passed=9, failed=int(wrong), refused=1, worst_error_over_bound=0.61, worst_case="b1", worst_input="large")
    print(json.dumps(dict(device="cuda", seed=1, commit="abc", kernels=[kernel])))
    sys.exit(int(wrong))
elif words[0] == "bench":
    rows = [row("scalar", 1, 900), row("shared", 2, 250, "scalar", 3.6), row("async", 3, 200, "shared", 1.25),
            row("sm90", 0, 2, "async", 100), row("sm80", 0, 5, "async", 40)]
    rows = rows if "--ladder" in words else rows[-1:]
    if "sm90" in words:
        rows = [row(kernel, 0, p50) | dict(words=case) for case in words if case.startswith("b1 ")
                for kernel, p50 in (("sm90", 2), ("sm80", 5))]
    json.dump(run | dict(results=rows), open(words[words.index("--save") + 1], "w"))
elif words[0] == "profile":
    if os.environ.get("FAKE_NCU") == "no":
        print("tessera: no Nsight Compute here", file=sys.stderr)
        sys.exit(3)
    gate = dict(what="registers per thread", value=96.0, limit="<= 128", outcome="pass")
    print(json.dumps(run | dict(profiles=[dict(kernel="sm80", words="b2 h8 q512", passed=True, gates=[gate])])))
"""

SANITIZER = """#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3"; exit 0; fi
tool=$2
if [ "$FAKE_SANITIZER" = unusable ]; then echo "========= Error: Device not supported"; exit 1; fi
while [ "${1#--}" != "$1" ]; do shift 2; done
"$@"
[ "$FAKE_RACE" = yes ] && [ "$tool" = racecheck ] && echo "========= Error: Race reported" && exit 86
echo "========= ERROR SUMMARY: 0 errors"
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "build/tests/cuda").mkdir(parents=True)
        self.program("build/tessera", TESSERA.replace("{python}", sys.executable))
        self.program("build/tests/cuda/some_test", "#!/bin/sh\necho ran\n")
        self.program("bin/nvidia-smi", '#!/bin/sh\necho "NVIDIA Fake 9 (PCIe)"\n')
        self.program("bin/compute-sanitizer", SANITIZER)
        self.results = self.path / "results" / "nvidia-fake-9"

    def program(self, name, text):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def check(self, *words, **fakes):
        environment = os.environ | fakes | {
            "PATH": f"{self.path}/bin:{os.environ['PATH']}", "TESSERA_BUILD": f"{self.path}/build", "TESSERA_COMMIT": "xyz",
            "TESSERA_RESULTS": f"{self.path}/results", "TESSERA_LOGS": f"{self.path}/logs", "PYTHONPATH": ""}  # fmt: skip
        return subprocess.run([ROOT / "scripts/gpu-check", *words], env=environment, capture_output=True, text=True)

    def outcomes(self, done):
        table = done.stdout.split("\nstage ")[1].splitlines()[1:-1]
        return {line.split()[0]: line.split()[1] for line in table}

    def test_every_stage_that_can_run_does_and_leaves_its_file(self):
        done = self.check("tests", "verify", "sanitizer", "bench", "ladder", "sweep", "profile")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(set(self.outcomes(done).values()), {"ok"})
        for file in ("verify.json", "bench.json", "ladder.json", "profile.json"):
            json.loads((self.results / file).read_text())
        listed = (ROOT / "scripts/gpu-check").read_text().split("small_cases=(")[1].split("\n)")[0]
        cases = len(re.findall(r'^  "b\d', listed, re.MULTILINE))
        self.assertGreater(cases, 10)
        self.assertEqual((self.results / "sanitizer.txt").read_text().count(f": clean, 20 launches on {cases} cases"), 4)
        for file, last, along in (("sweep", "32,768", "queries"), ("sweep-heads", "128", "heads, 1,024 queries each")):
            drawn = (self.results / f"{file}.svg").read_text()
            self.assertIn(f">{last}<", drawn)
            self.assertIn(f">{along}", drawn)

    def test_a_gpu_with_one_production_kernel_has_no_sweep(self):
        done = self.check("sweep", FAKE_HOPPER="3")
        self.assertEqual(self.outcomes(done), {"sweep": "skipped"})
        self.assertFalse((self.results / "sweep.json").exists())
        self.assertEqual(self.outcomes(self.check("sweep", FAKE_HOPPER="1")), {"sweep": "FAILED"})

    def test_a_chart_of_one_point_is_refused_in_words(self):
        file = self.path / "one.json"
        rows = [dict(words="b1 h16/4 q128 d64 bf16", kernel=k, verified=True, p50_us=2) for k in ("sm90", "sm80")]
        for results, says in ((rows, "a line needs two points"), (rows[:1], "two kernels"), ([], "two kernels")):
            file.write_text(json.dumps(dict(results=results)))
            done = subprocess.run([sys.executable, ROOT / "scripts/sweep-plot", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_missing_tools_are_skipped_with_the_reason(self):
        done = self.check("build", "sanitizer", "profile", "numbers", FAKE_NCU="no", FAKE_SANITIZER="unusable")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(set(self.outcomes(done).values()), {"skipped"})
        self.assertIn("no Nsight Compute", done.stdout)
        self.assertIn("cannot use this machine's GPU", done.stdout)
        self.assertFalse((self.results / "profile.json").exists())

    def test_a_wrong_kernel_and_a_race_fail(self):
        done = self.check("verify", "sanitizer", "bench", FAKE_WRONG="yes", FAKE_RACE="yes")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.outcomes(done), {"verify": "FAILED", "sanitizer": "FAILED", "bench": "ok"})
        self.assertIn("Race reported", (self.results / "sanitizer.txt").read_text())

    def test_without_a_gpu_it_says_so(self):
        done = self.check("verify", FAKE_GPU="no")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no driver", done.stderr)

    def test_a_mistyped_stage_or_option_is_a_usage_error(self):
        for words in (["verfy"], ["--qick"], ["--gpu", "first"]):
            self.assertEqual(self.check(*words).returncode, 2, words)

    def test_the_pages_are_written_from_the_results(self):
        self.check("verify", "sanitizer", "bench", "ladder", "profile")
        bench = json.loads((self.results / "bench.json").read_text())
        bench["results"][0] |= dict(host=dict(p50_us=5.0), bare_launch=dict(p50_us=4.0))
        bench["results"].append(bench["results"][0] | dict(name="long", p50_us=900.0, p90_us=900.0))
        (self.results / "bench.json").write_text(json.dumps(bench))
        timed = [("tessera", 2.0, "sm90"), ("tessera sm80", 4.0, ""), ("torch flash", 5.0, ""), ("torch cudnn", 3.0, "")]
        rows = [dict(case="mission512", contender=name, flops=1e9, detail=detail, graph=dict(p50_us=time), ratio=time / 2)
                for name, time, detail in timed]  # fmt: skip
        compare = dict(environment=dict(gpu="NVIDIA Fake 9", command="/somewhere/compare.py --contender 'torch flash'"), rows=rows)
        (self.results / "compare.json").write_text(json.dumps(compare))
        docs = self.path / "docs"
        docs.mkdir()
        shutil.copy(ROOT / "docs/ladder.md", docs)
        shutil.copy(ROOT / "docs/options.md", docs)
        numbers = [sys.executable, ROOT / "scripts/gpu-numbers", "--results", self.path / "results", "--docs", docs]
        self.assertNotEqual(subprocess.run([*numbers, "--check"], capture_output=True).returncode, 0, "not written yet")
        self.assertEqual(subprocess.run(numbers).returncode, 0)
        self.assertEqual(subprocess.run([*numbers, "--check"]).returncode, 0)
        page = (docs / "numbers.md").read_text()
        for part in ("## NVIDIA Fake 9", "driver 580.1", "commit abc", "`tessera bench --device cuda", "racecheck: clean"):
            self.assertIn(part, page)
        # Peers over ours, then the kernel of older GPUs by itself and one peer over that.
        self.assertIn("| case | Tessera µs | TFLOP/s | torch flash | torch cudnn | `sm80` µs | torch flash over `sm80` |", page)
        self.assertIn("| mission512 | 2.00 | 500.0 | 2.50× | 1.50× | 4.00 | 1.25× |", page)
        self.assertIn("`compare.py --contender 'torch flash'`", page, "a command that can be pasted")
        self.assertIn("| 4.00 + 1.00 |", page)
        self.assertRegex(page, r"\| long \|[^\n]*\|  \| 1.1 \|", "what the host waits for there is the GPU")
        self.assertNotIn("/somewhere", page, "folders of the machine are nobody's business")
        ladder = (docs / "ladder.md").read_text()
        # The step as the benchmark took it, and the production kernels behind the rungs, the fastest last.
        self.assertIn("| 1 | `scalar` | 900.0 | 1.00 | 1.1 |  | 1.0× | 0.50 |", ladder)
        self.assertIn("| 3 | `async` | 200.0 | 1.00 | 5.0 | 1.25× | 4.5× | 0.50 |", ladder)
        self.assertLess(ladder.index("|  | `sm80` | 5.00 |"), ladder.index("|  | `sm90` | 2.00 |"))
        self.assertIn("Not measured yet: `scripts/gpu-check compare`.", (docs / "options.md").read_text())

    def test_the_costs_of_options_are_taken_from_one_run(self):
        self.check("bench")
        shape = dict(group="costs", batch=2, heads=4, kv_heads=4, queries=8, keys=8, dim=64, causal="", flops=1e9, detail="")
        def row(case, contender, time, options="", dtype="bfloat16"):
            timed = dict(graph=dict(p50_us=time)) if time else {}
            return shape | dict(case=case, contender=contender, options=options, dtype=dtype) | timed
        rows = [row("plain", "tessera", 10.0), row("plain", "FlexAttention", 20.0),
                row("alibi", "tessera", 12.0, "alibi"), row("alibi", "FlexAttention", 24.0, "alibi"),
                row("alibi", "torch math", 99.0, "alibi"), row("alibi", "torch default", 36.0, "alibi"),
                row("f32", "tessera", 40.0, "", "float32"), row("f32", "torch default", None, "", "float32"),
                row("wide", "tessera", 5.0, "softcap=30") | dict(dim=128)]  # fmt: skip
        run = dict(environment=dict(gpu="NVIDIA Fake 9", command="compare.py", commit="def", date="2026-01-02"), rows=rows)
        (self.results / "compare.json").write_text(json.dumps(run | dict(rows=[])))
        (self.results / "costs.json").write_text(json.dumps(run))
        docs = self.path / "docs"
        docs.mkdir()
        shutil.copy(ROOT / "docs/options.md", docs)
        numbers = [sys.executable, ROOT / "scripts/gpu-numbers", "--results", self.path / "results", "--docs", docs]
        self.assertEqual(subprocess.run(numbers).returncode, 0)
        for page in ("options.md", "numbers.md"):
            text = (docs / page).read_text()
            self.assertIn("| alibi | `alibi` | 12.0 | 83 | 10.0 | 1.20× | 2.00× | 3.00× |", text)
            self.assertIn("| f32 | `float32` | 40.0 | 25 | 10.0 | 4.00× |  |  |", text, "beside bf16")
            self.assertIn("| wide | `softcap=30` | 5.0 | 200 |  |  |  |  |", text, "no twin of its shape: no number")
            self.assertIn("nvidia-fake-9/costs.json", text)
        self.assertEqual((docs / "options.md").read_text().count("<!-- end of options -->"), 1)
        self.assertEqual(subprocess.run([*numbers, "--check"]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
