from typing import Any, Literal, Sequence, TypeVar, overload

from ._append import Rope

Array = TypeVar("Array")
Align = Literal["top-left", "bottom-right"]
Precision = Literal["accurate", "fast"]
Side = int | None
Window = int | tuple[Side, Side] | tuple[Side, Side, Align] | Sequence[Any]

version: str

class Error(Exception): ...
class InvalidArgument(Error, ValueError): ...
class Unsupported(Error, NotImplementedError): ...
class DeviceUnavailable(Error, RuntimeError): ...

@overload
def attend(
    q: Array,
    k: Any,
    v: Any,
    *,
    mask: Any | None = None,
    causal: Align | None = None,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi: Any | None = None,
    sinks: Any | None = None,
    key_lengths: Any | None = None,
    return_lse: Literal[False] = False,
    out: Array | None = None,
    kernel: str | None = None,
    workspace: Any | bool | None = None,
    query_offsets: Any | None = None,
    key_offsets: Any | None = None,
    page_table: Any | None = None,
    prior: Sequence[Any] | None = None,
    mask_align: Align | None = None,
    invariant: bool = False,
    query_scales: Any | None = None,
    key_scales: Any | None = None,
    value_scales: Any | None = None,
    scale_rows: int | None = None,
    precision: Precision | None = None,
    output_dtype: Any | str | None = None,
    new_key: Any | None = None,
    new_value: Any | None = None,
    rope: Rope | Sequence[Any] | None = None,
    positions: Any | None = None,
    key_tail: Any | None = None,
) -> Array: ...
@overload
def attend(
    q: Array,
    k: Any,
    v: Any,
    *,
    mask: Any | None = None,
    causal: Align | None = None,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi: Any | None = None,
    sinks: Any | None = None,
    key_lengths: Any | None = None,
    return_lse: Literal[True],
    out: Array | None = None,
    kernel: str | None = None,
    workspace: Any | bool | None = None,
    query_offsets: Any | None = None,
    key_offsets: Any | None = None,
    page_table: Any | None = None,
    prior: Sequence[Any] | None = None,
    mask_align: Align | None = None,
    invariant: bool = False,
    query_scales: Any | None = None,
    key_scales: Any | None = None,
    value_scales: Any | None = None,
    scale_rows: int | None = None,
    precision: Precision | None = None,
    output_dtype: Any | str | None = None,
    new_key: Any | None = None,
    new_value: Any | None = None,
    rope: Rope | Sequence[Any] | None = None,
    positions: Any | None = None,
    key_tail: Any | None = None,
) -> tuple[Array, Array]: ...
def attend_memory(q: Array, k: Any, v: Any, **options: Any) -> Any: ...
def plan(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any | None = None,
    causal: Align | None = None,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi: Any | None = None,
    sinks: Any | None = None,
    key_lengths: Any | None = None,
    return_lse: bool = False,
    out: Any | None = None,
    kernel: str | None = None,
    workspace: Any | bool | None = None,
    query_offsets: Any | None = None,
    key_offsets: Any | None = None,
    page_table: Any | None = None,
    prior: Sequence[Any] | None = None,
    mask_align: Align | None = None,
    invariant: bool = False,
    query_scales: Any | None = None,
    key_scales: Any | None = None,
    value_scales: Any | None = None,
    scale_rows: int | None = None,
    precision: Precision | None = None,
    output_dtype: Any | str | None = None,
    new_key: Any | None = None,
    new_value: Any | None = None,
    rope: Rope | Sequence[Any] | None = None,
    positions: Any | None = None,
    key_tail: Any | None = None,
) -> dict[str, Any]: ...
def explain(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any | None = None,
    causal: Align | None = None,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi: Any | None = None,
    sinks: Any | None = None,
    key_lengths: Any | None = None,
    return_lse: bool = False,
    out: Any | None = None,
    kernel: str | None = None,
    workspace: Any | bool | None = None,
    query_offsets: Any | None = None,
    key_offsets: Any | None = None,
    page_table: Any | None = None,
    prior: Sequence[Any] | None = None,
    mask_align: Align | None = None,
    invariant: bool = False,
    query_scales: Any | None = None,
    key_scales: Any | None = None,
    value_scales: Any | None = None,
    scale_rows: int | None = None,
    precision: Precision | None = None,
    output_dtype: Any | str | None = None,
    new_key: Any | None = None,
    new_value: Any | None = None,
    rope: Rope | Sequence[Any] | None = None,
    positions: Any | None = None,
    key_tail: Any | None = None,
) -> str: ...
def quantise_memory(
    x: Any, codes: Any, scales: Any, means: Any | None, scale_rows: int, hadamard: bool, /
) -> None: ...
def set_threads(count: int, /) -> None: ...
def threads() -> int: ...
def torch_calls() -> int: ...
def jax_targets() -> dict[str, Any]: ...
