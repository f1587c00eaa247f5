"""Names of a package that are imported when they are first used."""

import importlib
import sys

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["names_of"]


def names_of(package: str, homes: "Mapping[str, tuple[str, ...]]") -> "Callable[[str], object]":
    """Returns the function `__getattr__` of a package.

    Args:
        package: Name of the package.
        homes: Names by module of the package.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
