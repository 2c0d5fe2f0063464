from typing import Any, Literal, TypeVar, overload

Array = TypeVar("Array")
Scales = Literal["tensor", "head", "block64", "block128", "channel"]

@overload
def quantise(
    x: Array,
    dtype: Any | str = "float8_e4m3fn",
    *,
    scales: Scales = "tensor",
    smooth: Literal[False] = False,
    hadamard: bool = False,
    transpose: bool = False,
) -> tuple[Array, Array]: ...
@overload
def quantise(
    x: Array,
    dtype: Any | str = "float8_e4m3fn",
    *,
    scales: Scales = "tensor",
    smooth: Literal[True],
    hadamard: bool = False,
    transpose: bool = False,
) -> tuple[Array, Array, Array]: ...
