from typing import Any

class Rope:
    cos: Any
    sin: Any
    interleaved: bool
    first: int
    def __init__(self, cos: Any, sin: Any, interleaved: bool = False, first: int = 0) -> None: ...
