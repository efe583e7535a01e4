"""Layered layouts: edges point down, nodes do not overlap, and simple plans have no crossings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from millstream.drawing.layout import Placement, Size, layout

BOX = Size(100, 40)


def check(sizes: dict[str, Size], edges: list[tuple[str, str]], found: Placement) -> None:
    assert found.nodes.keys() == sizes.keys()
    boxes = [(x, y, sizes[name]) for name, (x, y) in found.nodes.items()]
    for place, (x, y, size) in enumerate(boxes):
        assert size.width / 2 - 1e-6 <= x <= found.width - size.width / 2 + 1e-6
        assert size.height / 2 - 1e-6 <= y <= found.height - size.height / 2 + 1e-6
        for other_x, other_y, other in boxes[:place]:
            apart = abs(x - other_x) >= (size.width + other.width) / 2 - 1e-6
            assert apart or abs(y - other_y) >= (size.height + other.height) / 2 - 1e-6
    for start, end in edges:
        points = found.edges[start, end]
        heights = [y for _, y in points]
        assert heights == sorted(heights), "down"
        assert points[0] == (found.nodes[start][0], found.nodes[start][1] + sizes[start].height / 2)
        assert points[-1] == (found.nodes[end][0], found.nodes[end][1] - sizes[end].height / 2)


def test_nothing() -> None:
    assert layout({}, []) == Placement({}, {}, 0.0, 0.0)


def test_a_chain_is_straight() -> None:
    found = layout(dict.fromkeys("abc", BOX), [("a", "b"), ("b", "c")])
    assert {x for x, _ in found.nodes.values()} == {50.0}
    assert [y for _, y in found.nodes.values()] == [20.0, 104.0, 188.0]


def test_an_edge_that_passes_a_layer_bends_beside_it() -> None:
    found = layout(dict.fromkeys("abc", BOX), [("a", "b"), ("b", "c"), ("a", "c")])
    _, bend, _ = found.edges["a", "c"]
    assert abs(bend[0] - found.nodes["b"][0]) > 50


def test_a_source_lies_above_the_first_that_reads_it() -> None:
    found = layout(dict.fromkeys("abcd", BOX), [("a", "b"), ("b", "c"), ("d", "c")])
    assert found.nodes["d"][1] == found.nodes["b"][1]


def test_two_chains_do_not_cross() -> None:
    edges = [("a", "x"), ("b", "y"), ("x", "p"), ("y", "q")]
    found = layout(dict.fromkeys("abyxqp", BOX), edges)
    for upper, lower in (("ab", "xy"), ("xy", "pq")):
        first = found.nodes[upper[0]][0] < found.nodes[upper[1]][0]
        assert first == (found.nodes[lower[0]][0] < found.nodes[lower[1]][0])


def test_a_cycle_is_no_plan() -> None:
    with pytest.raises(AssertionError, match="cycle"):
        layout(dict.fromkeys("ab", BOX), [("a", "b"), ("b", "a")])


@settings(max_examples=40, deadline=None)
@given(some.data())
def test_random_plans(data: some.DataObject) -> None:
    count = data.draw(some.integers(1, 25))
    names = [f"n{place}" for place in range(count)]
    sizes = {name: Size(data.draw(some.sampled_from([50, 100, 170])), 40) for name in names}
    edges = [
        (names[start], names[end])
        for end in range(1, count)
        for start in data.draw(some.sets(some.integers(0, end - 1), max_size=3))
    ]
    check(sizes, edges, layout(sizes, edges))
