"""LangGraph with its SQLite checkpointer: one node for each item, a level is a super-step.

`durability="sync"` writes the checkpoint of a super-step before the next one starts; within it, each node's result
is a pending write. `synchronous=FULL` makes every commit wait for the disk.
"""

import operator
import sqlite3
from typing import Annotated, TypedDict

import graph
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    answers: Annotated[list[str], operator.add]


def item(_: State):
    return {"answers": [graph.do_item()]}


def build():
    builder = StateGraph(State)
    before = [START] * graph.ASKED.width
    for level in graph.levels():
        # One edge for each item: all of a level are one super-step, so the next level waits for all of it anyway.
        for earlier, name in zip(before, level):
            builder.add_node(name, item)
            builder.add_edge(earlier, name)
        before = level
    for name in before:
        builder.add_edge(name, END)
    return builder


connection = sqlite3.connect(graph.ASKED.dir / "checkpoints.db", check_same_thread=False)
saver = SqliteSaver(connection)
saver.setup()
connection.execute("PRAGMA synchronous=FULL")
compiled = build().compile(checkpointer=saver)
config = {
    "configurable": {"thread_id": "batch"},
    "max_concurrency": graph.ASKED.jobs,
    "recursion_limit": graph.ASKED.levels + 1,
}
with graph.Clock() as clock:
    state = compiled.invoke({"answers": []}, config, durability="sync")
graph.tell(clock, state["answers"], "langgraph", "langgraph-checkpoint-sqlite")
