"""Small tables in the shape of TPC-H's, made so that every query of it has an answer; and changes of them.

The names, values and relations between columns are the specification's; how often they come is not: what a query asks
for is made likely.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("SAUDI ARABIA", 4),
    ("CHINA", 2),
)
_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED COPPER", "MEDIUM POLISHED TIN", "SMALL PLATED BRASS")
_BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
_CONTAINERS = {"Brand#12": "SM CASE", "Brand#23": "MED BOX", "Brand#34": "LG PKG", "Brand#45": "JUMBO JAR"}
_NAMES = ("forest green linen", "dark green puff", "forest rose", "azure lace")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_SIZES = (15, 3, 9, 14, 1, 5)
_MODES = ("AIR", "AIR REG", "MAIL", "SHIP", "TRUCK")
# Around the dates that queries ask for.
_DATES = (
    "1993-07-10",
    "1993-10-05",
    "1994-02-01",
    "1994-06-20",
    "1995-03-01",
    "1995-08-25",
    "1994-01-15",
    "1996-01-20",
)


def tables(seed: int = 7) -> Tables:
    """All tables, by their names."""
    dice = random.Random(seed)
    found: Tables = {
        "region": [(key, name, "") for key, name in enumerate(_REGIONS)],
        "nation": [(key, name, region, "") for key, (name, region) in enumerate(_NATIONS)],
        "supplier": [_supplier(key, dice) for key in range(12)],
        "customer": [_customer(key, dice) for key in range(24)],
        "part": [_part(key, dice) for key in range(16)],
        "partsupp": [
            (part, supplier, dice.randint(1, 200), _money(dice, 1, 1000), "")
            for part in range(16)
            for supplier in dice.sample(range(12), 4)
        ],
        "orders": [],
        "lineitem": [],
    }
    suppliers = {part: [row[1] for row in found["partsupp"] if row[0] == part] for part in range(16)}
    for key in range(60):
        order, lines = _order(key, suppliers, dice)
        found["orders"].append(order)
        found["lineitem"] += lines
    return found


def _supplier(key: int, dice: random.Random) -> Row:
    nation = key % len(_NATIONS)
    comment = "Customer some Complaints" if key == 3 else "quick"
    return key, f"Supplier#{key:03}", f"street {key}", nation, _phone(nation, dice), _money(dice, -999, 9999), comment


def _customer(key: int, dice: random.Random) -> Row:
    nation = key % len(_NATIONS)
    segment = dice.choice(("BUILDING", "MACHINERY"))
    name, phone = f"Customer#{key:03}", _phone(nation, dice)
    return key, name, f"road {key}", nation, phone, _money(dice, -999, 9999), segment, f"note {key}"


def _part(key: int, dice: random.Random) -> Row:
    brand, kind = _BRANDS[key % 4], _TYPES[dice.randrange(4) if key > 3 else key]
    size = 15 if kind.endswith("BRASS") else dice.choice(_SIZES)
    maker = f"Manufacturer#{key % 5}"
    return key, _NAMES[key // 4], maker, brand, kind, size, _CONTAINERS[brand], _money(dice, 900, 2000), ""


def _order(key: int, suppliers: dict[int, list[int]], dice: random.Random) -> tuple[Row, list[Row]]:
    ordered = dt.date.fromisoformat(_DATES[key % len(_DATES)]) + dt.timedelta(days=dice.randint(0, 20))
    customer = dice.choice([number for number in range(24) if number % 3])  # some have no orders
    large = key % 12 == 5
    lines = [
        _line(key, number, ordered, suppliers, dice, large) for number in range(7 if large else dice.randint(1, 5))
    ]
    status = dice.choice(("F", "F", "O"))
    comment = "special packages requests" if dice.random() < 0.2 else "plain"
    priority = dice.choice(_PRIORITIES)
    return (key, customer, status, _money(dice, 1000, 90000), ordered, priority, "Clerk#1", 0, comment), lines


def _line(
    order: int, number: int, ordered: dt.date, suppliers: dict[int, list[int]], dice: random.Random, large: bool
) -> Row:
    part = dice.randrange(16)
    supplier = dice.choice(suppliers[part])
    quantity = Decimal(dice.randint(45, 50) if large else dice.choice((1, 2, 5, 10, 15, 22, 28)))
    shipped = ordered + dt.timedelta(days=dice.randint(1, 40))
    committed = ordered + dt.timedelta(days=dice.randint(10, 60))
    received = shipped + dt.timedelta(days=dice.randint(1, 30))
    discount, tax = Decimal(dice.randint(0, 10)) / 100, Decimal(dice.randint(0, 8)) / 100
    flag, line_status = dice.choice(("R", "A", "N")), "F" if shipped < dt.date(1995, 6, 17) else "O"
    price = quantity * _money(dice, 900, 1100)
    instruction = dice.choice(("DELIVER IN PERSON", "NONE"))
    values = (order, part, supplier, number, quantity, price, discount, tax, flag, line_status)
    return (*values, shipped, committed, received, instruction, dice.choice(_MODES), "")


def _money(dice: random.Random, low: int, high: int) -> Decimal:
    return Decimal(dice.randint(low * 100, high * 100)) / 100


def _phone(nation: int, dice: random.Random) -> str:
    code = dice.choice(("13", "31", "23", "29", "30", "18", "17")) if nation % 3 else str(10 + nation)
    return f"{code}-{dice.randint(100, 999)}-{dice.randint(100, 999)}"


def literal(value: object) -> str:
    """A constant, as both languages write it."""
    if isinstance(value, str):
        return f"'{value}'"
    return f"DATE '{value}'" if isinstance(value, dt.date) else str(value)


def inserted(table: str, rows: list[Row]) -> str:
    return f"INSERT INTO {table} VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def changes(found: Tables) -> list[list[str]]:
    """What is said at each instant, from 1 on: a part of the tables, the rest, deletes, what was deleted, updates."""
    first, later = {}, {}
    for name, rows in found.items():
        kept = rows if name in ("region", "nation") else [row for row in rows if (row[0] * 7 + len(row)) % 5]
        first[name], later[name] = kept, [row for row in rows if row not in kept]
    gone = {name: [row for row in rows if row[0] % 4 == 1] for name, rows in first.items()}
    keys = {"supplier": "s_suppkey", "customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey"}
    deleted = {**keys, "partsupp": "ps_partkey"}
    return [
        [inserted(name, rows) for name, rows in first.items() if rows],
        [inserted(name, rows) for name, rows in later.items() if rows],
        [f"DELETE FROM {name} WHERE {key} % 4 = 1" for name, key in deleted.items()],
        [inserted(name, gone[name]) for name in deleted if gone[name]],
        [f"UPDATE part SET p_size = 15 WHERE p_size = {_SIZES[1]}", "DELETE FROM region WHERE r_name = 'AMERICA'"],
    ]
