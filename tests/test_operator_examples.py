"""The docstring of every operator has an example, which shows what it says."""

from __future__ import annotations

import doctest
import sys

import pytest
from tests.support.operators import operators

from millstream.kernel import examples
from millstream.kernel.operator import Operator


@pytest.mark.parametrize("operator", [*operators()], ids=lambda operator: operator.__name__)
def test_the_example_of_an_operator_runs(operator: type[Operator], capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of its module, and those of `kernel.examples`."""
    names = {**vars(sys.modules[operator.__module__]), **{name: getattr(examples, name) for name in examples.__all__}}
    own = vars(operator).get("__doc__") or ""
    example = doctest.DocTestParser().get_doctest(own, names, operator.__qualname__, operator.__module__, None)
    assert example.examples, f"{operator.__qualname__} has no example"
    assert any(operator.__name__ in line.source for line in example.examples), "the example is of something else"
    failed, _ = doctest.DocTestRunner().run(example)
    assert not failed, capsys.readouterr().out
