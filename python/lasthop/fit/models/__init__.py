"""Models of a record of losses, one file each; `MODELS` is the list, the simplest first."""

from lasthop.fit.models.base import Model, Parameter
from lasthop.fit.models.gilbert_elliott import Gilbert, GilbertElliott, SimpleGilbert
from lasthop.fit.models.three_state import ThreeState
from lasthop.fit.models.two_state import TwoState
from lasthop.fit.models.uniform import Uniform

__all__ = ["MODELS", "Model", "Parameter"]

MODELS: tuple[Model, ...] = (
    Uniform(),
    SimpleGilbert(),
    Gilbert(),
    GilbertElliott(),
    TwoState(),
    ThreeState(),
)
