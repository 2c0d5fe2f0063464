#!/usr/bin/env python3
"""Writes the seeds in corpus/: a few small inputs a target accepts, and a few it refuses at its far end.

Needs nothing but Python; running it again gives the same bytes.
"""
import json
import pathlib
import random
import struct

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def npy(descr, order, shape, data, version=1):
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def safetensors(header, data):
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


put("npy_fuzz", "f4", npy("'<f4'", "False", "(2, 3)", bytes(24)))
put("npy_fuzz", "f8_v2", npy("'<f8'", "False", "(2,)", bytes(16), 2))
put("npy_fuzz", "big_fortran_v3", npy("'>f2'", "True", "(2, 1, 3)", bytes(range(12)), 3))
put("npy_fuzz", "bf16", npy("'<V2'", "False", "(3,)", bytes(6)))
put("npy_fuzz", "bfloat16", npy('"bfloat16"', "False", "(1L,)", bytes(2)))
put("npy_fuzz", "u1", npy("'|u1'", "False", "(4,)", b"\x00\x7f\x80\xff"))
put("npy_fuzz", "scalar", npy("'<i8'", "False", "()", b"\xff" * 8))
put("npy_fuzz", "empty", npy("'|b1'", "True", "(0, 9223372036854775807)", b""))
put("npy_fuzz", "overflow", npy("'<f4'", "False", "(4611686018427387904, 4)", b""))
put("npy_fuzz", "records", npy("[('x', '<f4')]", "False", "(1,)", bytes(4)))

put("safetensors_fuzz", "none", safetensors("{}", b""))
put("safetensors_fuzz", "one", safetensors({"q": tensor("F32", [2], 0, 8)}, bytes(8)))
put("safetensors_fuzz", "two", safetensors({"__metadata__": {"a": "b"}, "k": tensor("BF16", [1, 2], 0, 4),
                                            "m": tensor("BOOL", [3], 4, 7)}, bytes(7)))
put("safetensors_fuzz", "empty", safetensors({"e": tensor("I64", [0, 5], 0, 0), "s": tensor("U8", [], 0, 1)}, b"x"))
put("safetensors_fuzz", "f8", safetensors({"f": tensor("F8_E4M3", [2], 0, 2)}, bytes(2)))
put("safetensors_fuzz", "overlap", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)))
put("safetensors_fuzz", "deep", safetensors('{"a":' + "[" * 40, b""))
put("safetensors_fuzz", "escapes", safetensors('{"\\u00e9\\ud83d\\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"))

put("case_fuzz", "all_words", b"b2 h8/2 q256 k300 d64 v64 f16 causal=bottom-right window=127,0 scale=0.1 softcap=30 "
    b"mask=boolean lengths alibi sinks layout=bshd")
put("case_fuzz", "append", b"b2 h4/1 q5 k90 d64 v48 f16 align=bottom-right lengths ragged pages=16 latent append "
    b"rope=interleaved:8+48 positions")
put("case_fuzz", "plain", b"b1 h1 q1 k1 d64 f32")
put("case_fuzz", "top_left", b"q3 k5 d8 bf16 causal=top-left mask=additive layout=padded")
put("case_fuzz", "name", b"canon_1")
put("case_fuzz", "long", b"q55555230")
put("case_fuzz", "wrong", b"b-1 h3/2 q99999999999999999999")

# The structured targets read their bytes as choices; noise reaches further than any pattern.
noise = random.Random(20240229)
for n in range(4):
    put("validate_fuzz", f"noise{n}", noise.randbytes(64 + 64 * n))
    put("attend_fuzz", f"noise{n}", noise.randbytes(48))

# An extent of exactly 2^63 elements, which once overflowed.
put("validate_fuzz", "extent_2_63", bytes.fromhex(
    "013a730a9c0449c324a2ff96ed4fc99c600b4ff4899eec6d470b00000b1017fb164c93952544fe0831"))

# A last row whose additions once took another order on one thread than on two.
put("attend_fuzz", "threads", bytes.fromhex(
    "46565e2b9dc75ecc084f5fa32b9dc75ecc084f5fa33fdcf9d786153780a0dd5f1e415cb4105309077ab7c759dd716371"))
