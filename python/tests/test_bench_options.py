"""The options of scripts/bench_options.py: the same values as the C++ cases, the same formula as the library."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
if not SCRIPTS.exists():
    pytest.skip("the scripts are not here", allow_module_level=True)
sys.path.insert(0, str(SCRIPTS))

import bench_cases  # noqa: E402
import bench_measure  # noqa: E402
import bench_options  # noqa: E402
import tessera  # noqa: E402

KNOWN = bench_cases.load(bench_cases.find_command(None))


def case_of(words: str):
    return bench_cases.from_words("words", "", words, 0.0, 0.0)


def test_values_are_pinned():
    """tests/unit/option_lists_test.cpp holds the same numbers."""
    lengths = bench_options.make(KNOWN["padding_1k"]).mask.sum(axis=3).ravel()
    assert lengths[:6].tolist() == [1024, 814, 470, 919, 1024, 335]
    bias = bench_options.make(case_of("b1 h2 q3 k4 d64 f32 mask=additive-f32:heads-queries-keys:bias")).mask.ravel()
    assert float(bias[0]).hex() == float.fromhex("0x1.b48dbcp-1").hex()
    assert float(bias[23]).hex() == float.fromhex("0x1.fdcedp+0").hex()


def test_documents_count_as_the_list_counts_them():
    case = KNOWN["documents_8k"]
    visible = int(bench_options.make(case).mask.sum())
    assert 2.0 * visible * case.batch * case.heads * (case.dim + case.value_dim) == case.flops


def test_a_word_that_is_not_known_is_said():
    with pytest.raises(ValueError, match="the word colour=red is not known here"):
        bench_options.make(case_of("b1 h1 q3 d8 f32 colour=red"))
    with pytest.raises(ValueError, match="stripes is not known here"):
        bench_options.make(case_of("b1 h1 q3 d8 f32 mask=boolean:stripes"))


SMALL = [c for c in KNOWN.values() if c.group in ("options", "pairs", "masks")]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_library_agrees(case):
    """Every small case with options: keywords, contents and the oracle of compare.py against tessera.attend."""
    q, k, v = bench_cases.arrays(case)
    options = bench_options.make(case)
    if case.dtype != "float32":
        pytest.importorskip("ml_dtypes")
    out = tessera.attend(q, k, v, **bench_options.keywords(case, options))
    checked = bench_measure.check(case, bench_measure.oracle_rows(case, q, k, v, options), out)
    assert checked["passes_1e-2"], checked


def test_an_oracle_that_ignores_an_option_is_noticed():
    case = KNOWN["pair_alibi_sinks_f32"]
    q, k, v = bench_cases.arrays(case)
    out = tessera.attend(q, k, v, **bench_options.keywords(case, bench_options.make(case)))
    wrong = bench_options.Options(align=case.causal)
    assert not bench_measure.check(case, bench_measure.oracle_rows(case, q, k, v, wrong), out)["passes_1e-2"]


def test_rows_that_see_nothing_give_zero():
    case = case_of("b1 h1 q5 k2 d8 f32 mask=boolean:queries-keys:blocks2")
    q, k, v = bench_cases.arrays(case)
    ((_, exact, plain),) = bench_measure.oracle_rows(case, q, k, v)
    assert np.all(exact[:3] == 0) and np.all(plain[:3] == 0) and np.all(exact[3:] != 0)
