"""What the peers share: which graph is asked for, what an item is, and how the result is told.

A graph has `levels` levels of `width` items; an item starts when the whole level before it is done, and no more
than `jobs` run at a time. An item starts `/bin/echo` with a fixed response and returns what it printed.
"""

import argparse
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version

_parser = argparse.ArgumentParser()
for _number in ("levels", "width", "jobs"):
    _parser.add_argument(f"--{_number}", type=int, required=True)
_parser.add_argument("--response", required=True)
_parser.add_argument("--dir", type=pathlib.Path, required=True, help="an empty folder on the measured disk")
_parser.add_argument("--server", help="the engine's server, if it is a program of its own")
ASKED = _parser.parse_args()

# Nobody waits for ever: a server that never listens ends like any other failure, and takes its server along.
SECONDS_MAX = 300
signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"it took more than {SECONDS_MAX} s"))
signal.alarm(SECONDS_MAX)


def levels():
    """The names of the items, level by level."""
    return [[f"item-{level}-{place}" for place in range(ASKED.width)] for level in range(ASKED.levels)]


def do_item():
    """The work of one item; blocks."""
    command = ["/bin/echo", ASKED.response]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().rstrip("\n")


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Clock:
    """Runs while the graph does; set-up before and taking down after it do not count."""

    def __enter__(self):
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.started


def tell(clock, answers, *packages):
    """Prints the result, unless an item is missing or did not say what it had to."""
    expected = ASKED.levels * ASKED.width
    if len(answers) != expected or any(answer != ASKED.response for answer in answers):
        raise SystemExit(f"{len(answers)} answers in place of {expected}, or wrong ones")
    engine = ", ".join(f"{package} {version(package)}" for package in packages)
    print(json.dumps({"seconds": clock.seconds, "engine": engine}))
