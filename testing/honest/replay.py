#!/usr/bin/env python3
"""Replays commits of a git repository as the work of honest agents, and says what norma makes of them.

    replay.py --norma BINARY --repository GIT_DIR [--commits N] [--seed N] [--limits default|raised] [--build COMMAND]
              [--read DIRECTORY]... [--with PATH]

Each commit becomes a work item whose scope names exactly the files that it touches. A worker copies the commit's files into
its workspace, builds if it is told to, and answers. What norma captured must be the commit's own tree, whatever came of it.
The commits are drawn by the seed from those with one parent. The last line printed is a JSON object with the counts; the exit code is 1 if
a captured tree differs.
"""

import argparse
import collections
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile

WORKER = """#!/bin/sh
# Makes the change that lies in {change}: what is removed first, then what is there now.
cat > /dev/null
xargs -0 rm -f -- < {change}/removed
xargs -0 -n 1 dirname -z -- < {change}/removed | xargs -0 rmdir -p --ignore-fail-on-non-empty -- 2> /dev/null
cp -a {change}/files/. .
( {build} ) > /dev/null 2>&1 < /dev/null && built=built
echo '{{"version": 1, "status": "ok", "summary": "'${{built:-the build failed}}'"}}'
"""


def git(directory, *words, check=True):
    done = subprocess.run(["git", "-C", directory, *words], capture_output=True)
    if check and done.returncode != 0:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def drawn(repository, count, seed, needed):
    """The commits to replay: those with exactly one parent that have the file that a build needs. One that moves a submodule
    is no change of files."""
    listed = git(repository, "rev-list", "--min-parents=1", "--max-parents=1", "HEAD").decode().split()
    random.Random(seed).shuffle(listed)
    for commit in listed:
        if count == 0:
            return
        if needed and not git(repository, "ls-tree", commit, needed):
            continue
        if not git(repository, "diff-tree", "-r", f"{commit}^", commit).count(b"160000 "):
            count -= 1
            yield commit


def entries(repository, commit):
    """Mode, object and path of every file that the commit leaves different, and the paths that it removes."""
    raw = git(repository, "diff-tree", "-r", "-z", "--no-renames", f"{commit}^", commit).split(b"\0")
    for meta, path in zip(raw[0::2], raw[1::2]):
        _, mode, _, identifier, _ = meta.decode().split(" ")
        yield int(mode, 8), identifier, path


def prepare(repository, commit, change):
    """Lays the commit's files out for the worker; answers the paths."""
    shutil.rmtree(change, ignore_errors=True)
    files = os.path.join(change, "files").encode()
    os.makedirs(files)
    paths = []
    with open(os.path.join(change, "removed"), "wb") as removed:
        for mode, identifier, path in entries(repository, commit):
            paths.append(path)
            removed.write(path + b"\0")
            if mode == 0:
                continue
            target = os.path.join(files, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            content = b"" if mode == 0o160000 else git(repository, "cat-file", "blob", identifier)
            if mode == 0o120000:
                os.symlink(content, target)
            else:
                with open(target, "wb") as file:
                    file.write(content)
                os.chmod(target, 0o755 if mode & stat.S_IXUSR else 0o644)
    return paths


class Replay:
    def __init__(self, options, place):
        self.options = options
        options.norma = os.path.abspath(options.norma)
        self.built = 0
        self.root = os.path.join(place, "repo")
        self.change = os.path.join(place, "change")
        self.env = {"PATH": os.environ["PATH"], "HOME": place, "XDG_DATA_HOME": os.path.join(place, "data")}
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", options.repository, self.root], check=True)
        git(self.root, "config", "user.name", "replay")
        git(self.root, "config", "user.email", "replay@localhost")
        worker = os.path.join(place, "worker.sh")
        with open(worker, "w") as file:
            file.write(WORKER.format(change=self.change, build=options.build or "true"))
        os.chmod(worker, 0o755)
        self.config = {
            "agents": {"worker": {"type": "exec", "cmd": [worker]}},
            "budgets": {"max_iterations": 1},
            "landing": {"mode": "branch"},
            "sandbox": {"read": [self.change, worker, *options.read]},
        }

    def norma(self, *words):
        return subprocess.run([self.options.norma, *words], cwd=self.root, env=self.env, capture_output=True)

    def setup(self, commit):
        git(self.root, "checkout", "-q", "--force", "--detach", f"{commit}^")
        git(self.root, "clean", "-fdxq", "-e", ".norma")
        if not os.path.isdir(os.path.join(self.root, ".norma")):
            self.norma("init")
            with open(os.path.join(self.root, ".norma/config.json"), "w") as file:
                json.dump(self.config, file)
            self.norma("trust")

    def item(self, paths):
        item = {"id": "commit", "agent_id": "worker", "description": "make this commit again"}
        named = [path.decode(errors="strict") for path in paths if is_text(path)]
        if len(named) == len(paths):
            item["allowed_paths"] = named
        if self.options.limits == "raised" or len(named) != len(paths):
            item["constraints"] = {"max_files": 100000, "max_delta_size": 100000}
        if self.options.limits == "raised":
            item["scope"] = {"allow_binary": True}
        return item

    def one(self, commit):
        """What came of a commit, why, and whether its tree was captured as it is."""
        self.setup(commit)
        paths = prepare(self.root, commit, self.change)
        with open(os.path.join(self.root, ".norma/item.json"), "w") as file:
            json.dump([self.item(paths)], file)
        done = self.norma("batch", ".norma/item.json", "--new", "--yes-wide", "--json")
        try:
            results = json.loads(done.stdout)
            result = results[0]
        except (ValueError, LookupError):
            said = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
            return "refused", said[-1][:300] if said else f"exit {done.returncode}", None
        with open(result["receipt_path"]) as file:
            captured = json.load(file)["git"]["candidate_tree"]
        tree = git(self.root, "rev-parse", f"{commit}^{{tree}}").decode().strip()
        why = result.get("denial_reason") or result.get("error") or ""
        self.built += self.has_built(os.path.dirname(result["receipt_path"]))
        return result["status"], why, captured == tree


    def has_built(self, change):
        """Whether the build that the agent was told to run succeeded."""
        steps = os.path.join(change, "../../steps")
        answers = [os.path.join(steps, step, "output.json") for step in os.listdir(steps)]
        return any(json.load(open(answer))["summary"] == "built" for answer in answers if os.path.exists(answer))


def is_text(path):
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--norma", required=True)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limits", choices=["default", "raised"], default="default")
    parser.add_argument("--build", help="a shell command that the agent runs after its change")
    parser.add_argument("--read", action="append", default=[], help="what the build needs besides the tools on the PATH")
    parser.add_argument("--with", dest="needed", help="draw only commits that have this file, such as a lock file")
    options = parser.parse_args()
    counts, different = collections.Counter(), []
    with tempfile.TemporaryDirectory() as place:
        replay = Replay(options, place)
        for commit in drawn(options.repository, options.commits, options.seed, options.needed):
            status, why, equal = replay.one(commit)
            counts[status] += 1
            if equal is False:
                different.append(commit)
            if status != "success" or not equal:
                print(commit, status, "equal" if equal else "NOT EQUAL", why[:300], flush=True)
    built = {"built": replay.built} if options.build else {}
    print(json.dumps({"commits": sum(counts.values()), **counts, **built, "captured_differently": different}))
    sys.exit(1 if different else 0)


main()
