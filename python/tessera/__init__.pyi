from . import jax as jax
from . import torch as torch
from . import transformers as transformers
from ._append import Rope as Rope
from ._binding import DeviceUnavailable as DeviceUnavailable
from ._binding import Error as Error
from ._binding import InvalidArgument as InvalidArgument
from ._binding import Unsupported as Unsupported
from ._binding import attend as attend
from ._binding import explain as explain
from ._binding import plan as plan
from ._binding import set_threads as set_threads
from ._binding import threads as threads
from ._quantise import quantise as quantise

__version__: str
