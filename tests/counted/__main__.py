"""What commands do, as counts: `python -m tests.counted [--compare] [--seldom] [STORY ...]`, run by `make counted`.

It counts every line of tests/cases/counted/commands.yaml, over the bundled log and over a copy grown four times, and writes the
tables beside it. With `--compare` it writes nothing, and ends with 1 if a count rose. `--seldom` leaves out what `make test`
compares.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.counted.stories import Place, Story, lines_of, told
from tests.counted.table import Table, differences, kept_table, why_not_here, write_table

SIZES = (1, 4)


def count_stories(stories: Sequence[Story], copies: int, folder: Path, functions: dict[str, list[str]]) -> Table:
    """The counts of each line of stories; as many stories run at one time as this machine has cores."""
    place = Place(folder / str(copies), copies)
    place.make()

    def tell(story: Story) -> Table:
        started = time.monotonic()
        found = {story.name: dict(lines_of(story, place, functions, folder / "code"))}
        sys.stderr.write(f"{copies}x, {story.name}: {time.monotonic() - started:.0f} s\n")
        return found

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: lines for table in pool.map(tell, stories) for name, lines in table.items()}


def main(words: list[str]) -> int:
    """Write the tables, or compare with them."""
    parser = argparse.ArgumentParser(prog="python -m tests.counted", description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--seldom", action="store_true")
    parser.add_argument("--copies", type=int, choices=SIZES, action="append")
    parser.add_argument("stories", nargs="*")
    asked = parser.parse_args(words)
    if why := why_not_here():
        sys.stderr.write(f"nothing was counted: {why}\n")
        return 0 if asked.compare else 2
    all_told = told()
    worse: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-counted-") as folder:
        for copies in asked.copies or SIZES:
            stories = [story for story in all_told.stories if not asked.stories or story.name in asked.stories]
            if copies > 1:
                stories = [story for story in stories if not story.once]
            elif asked.seldom:
                stories = [story for story in stories if not story.often]
            found = count_stories(stories, copies, Path(folder), all_told.functions)
            if asked.compare:
                worse += differences(kept_table(copies), found, copies)
            else:
                write_table(copies, found, is_whole=not asked.stories)
    sys.stdout.writelines(f"{line}\n" for line in worse)
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
