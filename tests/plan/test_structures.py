"""What operators are to those who look at a plan."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from millstream import kernel
from millstream.kernel.operator import Operator
from millstream.kernel.relational.multiplicity import DirectMultiplicity, Multiplicity
from millstream.plan.structures import _KINDS


def _operators(kind: type[Operator] = Operator) -> Iterator[type[Operator]]:
    for below in kind.__subclasses__():
        yield below
        yield from _operators(below)


def test_every_operator_has_a_kind() -> None:
    """Whoever looks at a plan should not read "operator"."""
    for module in pkgutil.walk_packages(kernel.__path__, "millstream.kernel."):
        importlib.import_module(module.name)
    known = (*_KINDS, Multiplicity, DirectMultiplicity)  # the last two by what they compute
    ours = (each for each in _operators() if each.__module__.startswith("millstream.kernel."))
    assert not [each for each in ours if not inspect.isabstract(each) and not issubclass(each, known)]
