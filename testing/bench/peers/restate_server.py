"""Restate's server on one node: the graph is a handler, an item is a `ctx.run` whose result is in the journal.

The limit is inside of an item: all of a level are asked for at once, and so many of them work.
"""

import asyncio
import subprocess

import graph
import httpx
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

service = restate.Service("Batch")
limit = asyncio.Semaphore(graph.ASKED.jobs)


async def item():
    async with limit:
        return await asyncio.to_thread(graph.do_item)


@service.handler()
async def run(ctx: restate.Context) -> list[str]:
    answers = []
    for level in graph.levels():
        due = [ctx.run_typed(name, item) for name in level]
        await restate.gather(*due)
        answers += [await future for future in due]
    return answers


def start_server(ingress, admin, node):
    environment = {
        "RESTATE_BASE_DIR": str(graph.ASKED.dir / "restate"),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        # It leaves folders behind where temporary files go.
        "TMPDIR": str(graph.ASKED.dir),
    }
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([graph.ASKED.server, "--no-logo"], env=environment, **quiet)


async def register(client, server, admin, endpoint):
    """Tells the server where the handler is, as soon as it listens."""
    while server.poll() is None:
        try:
            address = {"uri": f"http://127.0.0.1:{endpoint}"}
            (await client.post(f"http://127.0.0.1:{admin}/deployments", json=address)).raise_for_status()
            return
        except httpx.HTTPError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"the server ended with {server.returncode}")


async def main(server, ingress, admin, endpoint):
    config = Config()
    config.bind = [f"127.0.0.1:{endpoint}"]
    config.loglevel = "ERROR"
    done = asyncio.Event()
    serving = asyncio.create_task(serve(restate.app([service]), config, shutdown_trigger=done.wait))
    async with httpx.AsyncClient(timeout=120) as client:
        await register(client, server, admin, endpoint)
        with graph.Clock() as clock:
            answer = await client.post(f"http://127.0.0.1:{ingress}/Batch/run")
    done.set()
    await serving
    graph.tell(clock, answer.raise_for_status().json(), "restate-sdk")


ingress, admin, node, endpoint = (graph.free_port() for _ in range(4))
server = start_server(ingress, admin, node)
try:
    asyncio.run(main(server, ingress, admin, endpoint))
finally:
    server.kill()
    server.wait()
