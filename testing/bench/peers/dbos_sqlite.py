"""DBOS on SQLite: the graph is a workflow, an item is a step, a level is gathered.

Not a queue of child workflows, which DBOS offers for a limit on concurrency too: that is slower by far. DBOS
leaves SQLite's own settings alone, which wait for the disk at every commit (`synchronous=FULL`).
"""

import asyncio
import sqlite3
import sys

import graph

# DBOS asks SQLite for `unixepoch('subsec')`.
if sqlite3.sqlite_version_info < (3, 42):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3

from dbos import DBOS  # noqa: E402

limit = asyncio.Semaphore(graph.ASKED.jobs)


@DBOS.step()
async def item(_: str):
    async with limit:
        return await asyncio.to_thread(graph.do_item)


@DBOS.workflow()
async def batch():
    answers = []
    for level in graph.levels():
        answers += await asyncio.gather(*(item(name) for name in level))
    return answers


async def main():
    with graph.Clock() as clock:
        answers = await batch()
    graph.tell(clock, answers, "dbos")


database = f"sqlite:///{graph.ASKED.dir / 'dbos.db'}"
DBOS(config={"name": "batch", "system_database_url": database, "console_log_level": "ERROR"})
DBOS.launch()
asyncio.run(main())
DBOS.destroy()
