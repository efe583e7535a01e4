"""The operators of the kernel, as they are found in its modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from millstream import kernel
from millstream.kernel.operator import Operator


def operators() -> Iterator[type[Operator]]:
    """Those that can be made; others only hold what some of them share."""
    for module in pkgutil.walk_packages(kernel.__path__, f"{kernel.__name__}."):
        named = vars(importlib.import_module(module.name)).values()
        classes = (one for one in named if inspect.isclass(one) and one.__module__ == module.name)
        yield from (one for one in classes if issubclass(one, Operator) and not inspect.isabstract(one))
