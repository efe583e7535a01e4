"""100,000 statements with something changed: a fifth of them by the service, the others in this process."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.attacks.victim import SETUP, Victim, check_said, scaled
from tests.support.mutations import changed_text

import millstream as ms

pytestmark = pytest.mark.slow
_AS_LONG = 200  # statements that one database in this process sees


def test_by_the_service(victim: Victim) -> None:
    def ask(seed: int) -> None:
        dice = random.Random(seed)
        for number in range(100):
            text = changed_text(dice)
            victim.execute(text)
            if not number % 10:  # what was dropped comes again; what is there already is refused
                victim.execute(SETUP)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(ask, seed) for seed in range(-(-scaled(20_000) // 100))]:
            done.result()


def test_in_this_process() -> None:
    for seed in range(-(-scaled(80_000) // _AS_LONG)):
        dice = random.Random(1_000_000 + seed)
        with ms.connect(engine="inprocess") as db:
            db.execute(SETUP)
            for _ in range(_AS_LONG):
                text = changed_text(dice)
                try:
                    db.execute(text)
                except ms.Error as error:
                    check_said(400, str(error), text)
