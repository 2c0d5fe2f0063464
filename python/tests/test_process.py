"""What a long-lived process cares about: threads, the interpreter's lock, memory."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import reference
import tessera

CALLS = 10_000


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def assert_no_growth(call, watched):
    """Runs call 10,000 times; memory, Python's own blocks and reference counts must stay where they are."""
    for _ in range(1000):
        call()
    gc.collect()
    counts = [sys.getrefcount(w) for w in watched]
    blocks, resident = sys.getallocatedblocks(), resident_bytes()
    for _ in range(CALLS):
        call()
    gc.collect()
    grown_blocks, grown = sys.getallocatedblocks() - blocks, resident_bytes() - resident
    assert [sys.getrefcount(w) for w in watched] == counts
    assert grown_blocks < CALLS // 50, f"{grown_blocks} more blocks of Python memory after {CALLS} calls"
    assert grown < 4 << 20, f"{grown} more bytes resident after {CALLS} calls"


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_no_leak(dtype):
    q, k, v = reference.random_inputs(1, 1, 2, 1, 2, 64, 64, dtype=dtype)
    mask = np.ones((2, 64), bool)
    assert_no_growth(lambda: tessera.attend(q, k, v, mask=mask, return_lse=True, causal="top-left"), (q, k, v, mask))


def test_no_leak_through_other_protocols():
    q, k, v = (memoryview(t) for t in reference.random_inputs(1, 1, 2, 1, 2, 8, 16))
    out = np.empty(q.shape, np.float32)
    assert_no_growth(lambda: tessera.attend(q, k, v, out=out), (q, k, v, out))


def test_no_leak_when_refused():
    q, k, v = reference.random_inputs(1, 1, 2, 1, 2, 64, 64)
    wrong = k[:, :, :, :32]

    def refused():
        with pytest.raises(ValueError):
            tessera.attend(q, wrong, v)

    assert_no_growth(refused, (q, k, v))


def test_plan_and_explain_do_not_leak():
    q, k, v = reference.random_inputs(1, 1, 2, 1, 2, 64, 64)
    assert_no_growth(lambda: (tessera.plan(q, k, v), tessera.explain(q, k, v)), (q, k, v))


def test_calls_from_many_threads():
    problems = [reference.random_inputs(seed, 1, 4, 2, 3 + seed, 100 + seed, 64) for seed in range(8)]
    alone = [tessera.attend(*p, causal="bottom-right") for p in problems]

    def work(seed):
        return all(
            np.array_equal(tessera.attend(*problems[seed], causal="bottom-right"), alone[seed]) for _ in range(200)
        )

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_the_lock_is_free_while_computing():
    q, k, v = reference.random_inputs(3, 1, 4, 4, 2048, 2048, 64)
    tessera.set_threads(1)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        began = time.perf_counter()
        tessera.attend(q, k, v)
        ended = time.perf_counter()
    finally:
        stop.set()
        thread.join()
    during = sum(began < t < ended for t in ticks)
    # One tick or two can slip in around the call itself; a held lock allows no more.
    assert during >= 5, f"the other thread ran {during} times in {ended - began:.3f} s"


def test_set_threads():
    q, k, v = reference.random_inputs(4, 1, 8, 8, 128, 128, 64)
    tessera.set_threads(1)
    assert tessera.threads() == 1 and tessera.plan(q, k, v)["threads"] == 1
    for bad in (-1, 1025):
        with pytest.raises(ValueError, match="0 .all cores. to 1024"):
            tessera.set_threads(bad)


FORK = """
import os, sys, time, numpy as np, tessera
q = np.random.default_rng(0).standard_normal((2, 8, 64, 64), dtype=np.float32)
want = tessera.attend(q, q, q)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(tessera.attend(q, q, q), want) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_computes_too():
    """Data loaders fork; the child has none of the parent's threads. In a process of its own, as other
    libraries in this one may not survive a fork."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
