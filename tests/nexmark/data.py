"""People, auctions and bids of NEXMark: few of each, so that they meet, from a seed."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

START = dt.datetime(2026, 3, 1, 7, 59, 0)
SECONDS = 90
SIDE_INPUT = [(key, f"value {key}") for key in range(0, 1300, 3)]
_STATES = ("OR", "ID", "CA", "WA", "AZ")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple", "channel-17", "channel-4")
_AUCTIONS, _PEOPLE = 24, 12
Row = tuple[Any, ...]


def rows() -> dict[str, list[Row]]:
    """The elements of each stream, in the order of time."""
    dice = random.Random(22)
    people = [_person(dice, number) for number in range(_PEOPLE)]
    auctions = [_auction(dice, number) for number in range(_AUCTIONS)]
    bids = [_bid(dice, second, number) for second in range(SECONDS) for number in range(dice.choice((0, 1, 2, 4)))]
    return {"person": people, "auction": auctions, "bid": bids}


def _at(second: float) -> dt.datetime:
    return START + dt.timedelta(seconds=int(second))


def _person(dice: random.Random, number: int) -> Row:
    second = number * SECONDS * 0.6 / _PEOPLE
    name, city = f"person {number % 7}", dice.choice(("Portland", "Boise", "Phoenix"))
    return (
        number,
        name,
        f"{number}@example.org",
        f"{number:04}",
        city,
        dice.choice(_STATES),
        _at(second),
        "p" * number,
    )


def _auction(dice: random.Random, number: int) -> Row:
    second = number * SECONDS * 0.7 / _AUCTIONS
    expires = _at(second + dice.randrange(5, 60))
    seller = (
        min(int(second / (SECONDS * 0.6 / _PEOPLE)), _PEOPLE - 1) if dice.random() < 0.6 else dice.randrange(_PEOPLE)
    )
    first, category = dice.randrange(1, 1000), dice.choice((10, 10, 11, 12))
    return (
        _key(number),
        f"item {number}",
        "as new",
        first,
        2 * first,
        _at(second),
        expires,
        seller,
        category,
        f"a{number}",
    )


def _key(number: int) -> int:
    return 41 * number


def _bid(dice: random.Random, second: int, number: int) -> Row:
    bidder = (dice.randrange(4) * 4 + number) % _PEOPLE  # each at most once in a second
    price = int(10 ** dice.uniform(3, 8))
    auction = _key(dice.choice((dice.randrange(_AUCTIONS), min(second // 4, _AUCTIONS - 1))))
    channel = dice.choice(_CHANNELS)
    known = f"&channel_id={dice.randrange(99)}" if dice.random() < 0.5 else ""
    url = f"https://www.example.org/{channel.lower()}/d{dice.randrange(3)}/item.htm?query=1{known}"
    return (auction, bidder, price, channel, url, _at(second), "abc" * dice.randrange(3) + f" {second}-{number}")
