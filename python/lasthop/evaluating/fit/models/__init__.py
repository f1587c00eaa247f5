"""Models of a record of losses, one file each; `MODELS` is the list, the simplest first."""

from lasthop.evaluating.fit.models.base import Model, Parameter
from lasthop.evaluating.fit.models.gilbert_elliott import Gilbert, GilbertElliott, SimpleGilbert
from lasthop.evaluating.fit.models.three_state import ThreeState
from lasthop.evaluating.fit.models.two_state import TwoState
from lasthop.evaluating.fit.models.uniform import Uniform

__all__ = ["MODELS", "Model", "Parameter"]

MODELS: tuple[Model, ...] = (
    Uniform(),
    SimpleGilbert(),
    Gilbert(),
    GilbertElliott(),
    TwoState(),
    ThreeState(),
)
