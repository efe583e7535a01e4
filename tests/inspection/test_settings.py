"""Settings as they are listed for people."""

from __future__ import annotations

from millstream.settings import Settings, described


def test_every_setting_says_what_it_means() -> None:
    listed = described(Settings(jit="on"), {"shards"})
    assert {each["name"] for each in listed} == Settings.__dataclass_fields__.keys() - {"by_stream"}
    assert not [each["name"] for each in listed if not each["description"]]
    by_name = {each["name"]: each for each in listed}
    assert (by_name["jit"]["value"], by_name["jit"]["default"]) == ("on", "auto")
    assert [name for name, each in by_name.items() if not each["changeable"]] == ["shards"]
