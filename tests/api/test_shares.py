"""Fair shares of slots: the long work of one reader does not block that of another."""

from __future__ import annotations

import asyncio

import pytest

from api.work.shares import Shares


async def orders(slots: int, readers: str) -> list[str]:
    """The readers in the order in which they get a slot, where the work of `A` never ends by itself and that of others at once."""
    shares, begun = Shares(slots), list[str]()
    forever = asyncio.Event()

    async def work(reader: str) -> None:
        async with shares.slot(reader):
            begun.append(reader)
            if reader == "A":
                await forever.wait()

    tasks = []
    for reader in readers:
        tasks.append(asyncio.create_task(work(reader)))
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    seen = list(begun)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


@pytest.mark.parametrize(
    ("slots", "readers", "begun"),
    [
        (2, "AAAAB", "AB"),
        (2, "AAABCB", "ABCB"),
        (3, "AAAABBC", "AABBC"),
        (1, "AB", "A"),
        (4, "BBBB", "BBBB"),
    ],
)
def test_a_reader_leaves_a_slot_for_others(slots: int, readers: str, begun: str) -> None:
    assert sorted(asyncio.run(orders(slots, readers))) == sorted(begun)


def test_a_slot_that_is_not_waited_for_any_more_is_given_to_the_next() -> None:
    async def run() -> list[str]:
        shares, begun = Shares(1), list[str]()

        async def work(reader: str) -> None:
            async with shares.slot(reader):
                begun.append(reader)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(work(reader)) for reader in "ABC"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun

    assert asyncio.run(run()) == ["A", "C"]
