"""Fair shares of slots: the long work of one reader does not block that of another."""

from __future__ import annotations

import asyncio

import pytest

from api.work.shares import Shares


async def orders(slots: int, readers: str) -> tuple[str, str]:
    """The readers in the order in which they get a slot, and those who had to stop once.

    The work of readers with capital letters never ends by itself, and that of others ends at once.
    """
    shares, begun, stopped = Shares(slots, 0.0), list[str](), list[str]()

    async def work(reader: str) -> None:
        async with shares.slot(reader, is_new=True) as turn:
            begun.append(reader)
            if reader.islower():
                return
            await turn.ends.wait()
            stopped.append(reader)
        async with shares.slot(reader, is_new=False) as turn:
            await turn.ends.wait()

    tasks = []
    for reader in readers:
        tasks.append(asyncio.create_task(work(reader)))
        await asyncio.sleep(0)
    # Stopping and waiting again takes a few turns of the event loop for each reader.
    for _ in range(20 * len(readers)):
        await asyncio.sleep(0)
    seen = "".join(begun), "".join(stopped)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


@pytest.mark.parametrize(
    ("slots", "readers", "begun", "stopped"),
    [
        (2, "AAAAb", "Ab", ""),
        (2, "AAAbcb", "Abcb", ""),
        (3, "AAAAbbc", "AAbbc", ""),
        (4, "bbbb", "bbbb", ""),
        (1, "Ab", "Ab", ""),
        (1, "AAb", "Ab", ""),
        (2, "ABc", "ABc", ""),
        (2, "ABAABBc", "ABc", ""),
        (2, "ABCd", "ABCd", "C"),
        (2, "ABCDEf", "ABCDEf", "CDE"),
        (1, "ABCdef", "ABCdef", "BC"),
    ],
)
def test_long_work_of_readers_leaves_a_slot_to_others(slots: int, readers: str, begun: str, stopped: str) -> None:
    assert asyncio.run(orders(slots, readers)) == (begun, stopped)


def test_work_that_began_goes_on_in_a_slot_that_gets_free() -> None:
    async def run() -> tuple[bool, bool]:
        shares, end, begun, second_ends = Shares(1, 3600.0), asyncio.Event(), asyncio.Event(), asyncio.Event()
        third = asyncio.Event()

        async def work(reader: str, begins: asyncio.Event, ends: asyncio.Event) -> bool:
            async with shares.slot(reader, is_new=True) as turn:
                begins.set()
                await ends.wait()
                return turn.ends.is_set()

        first = asyncio.create_task(work("A", asyncio.Event(), end))
        second = asyncio.create_task(work("B", begun, second_ends))
        await begun.wait()
        end.set()
        await first
        # The slot for beginnings is free again, because the second one holds the slot of the first.
        last = asyncio.create_task(work("C", third, asyncio.Event()))
        await third.wait()
        second_ends.set()
        had_to_stop = await second
        last.cancel()
        await asyncio.gather(last, return_exceptions=True)
        return had_to_stop, third.is_set()

    assert asyncio.run(run()) == (False, True)


def test_a_slot_that_is_not_waited_for_any_more_is_given_to_the_next() -> None:
    async def run() -> list[str]:
        shares, begun = Shares(1, 0.0), list[str]()

        async def work(reader: str) -> None:
            async with shares.slot(reader, is_new=False):
                begun.append(reader)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(work(reader)) for reader in "ABC"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return begun

    assert asyncio.run(run()) == ["A", "C"]
