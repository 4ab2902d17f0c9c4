#!/usr/bin/env python3
"""Measures what norma proposes for a sentence, on commits of git repositories whose subject lines are the sentences.

    measure.py --norma BINARY [--commits N] [--skip N] [--shares 1,2,5,10,20,50] [--misses] REPOSITORY...

Each of the last commits with one parent and at least one changed file is looked at from its parent: a checkout of it is
made in a temporary directory, `norma serve` runs there, and `POST /api/intake` proposes a contract for the subject line. A commit is covered if
every file that it touches lies in the proposed scope, where a protected path counts only if the scope names it. The share is
that of the tree's files in the scope. Printed are, per repository and for all, how many commits are covered by what is
proposed unasked, how much of the tree that is, and the curve: how many are covered where the answer to the question `scope`
is a share. No model is asked, and nothing is written to the repositories.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile

ANSWER = '{"version":1,"status":"ok","summary":"nothing"}'


def git(directory, *words):
    return subprocess.run(["git", "-C", directory, *words], capture_output=True, check=True).stdout.decode(errors="replace")


def commits(repository, count, skip):
    """Hash, parent, subject and touched files of the commits that are measured, the newest first."""
    log = git(repository, "log", "--no-merges", "--min-parents=1", "--no-renames", "--name-only", "-z",
              "--format=%x01%H %P%x02%s", "HEAD")
    found = 0
    for part in log.split("\x01")[1:]:
        head, *files = part.split("\0")
        ids, subject = head.split("\x02", 1)
        commit, parent = ids.split()[:2]
        files = [file.lstrip("\n") for file in files if file.strip()]
        if not files or not subject.strip():
            continue
        found += 1
        if found > skip:
            yield commit, parent, subject.strip(), files
        if found == skip + count:
            return


class Served:
    """A server in a checkout of its own, which is gone at the end."""

    def __init__(self, norma, repository, home):
        self.root = os.path.join(home, "checkout")
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", repository, self.root], check=True)
        config = os.path.join(home, "config", "norma")
        os.makedirs(config)
        agent = {"type": "exec", "cmd": ["sh", "-c", f"cat > /dev/null; echo '{ANSWER}'"]}
        with open(os.path.join(config, "config.json"), "w") as file:
            json.dump({"agents": {"nobody": agent}, "default_agent": "nobody"}, file)
        self.environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": os.path.join(home, "config"),
                            "XDG_STATE_HOME": os.path.join(home, "state"), "XDG_DATA_HOME": os.path.join(home, "data")}
        self.norma = norma

    def start(self):
        self.process = subprocess.Popen([self.norma, "serve", "--port", "0", "--json"], cwd=self.root, env=self.environment,
                                        stdout=subprocess.PIPE, text=True)
        said = json.loads(self.process.stdout.readline())
        self.host = said["url"].split("//", 1)[1].rstrip("/")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def checkout(self, commit):
        git(self.root, "checkout", "--quiet", "--force", "--detach", commit)

    def intake(self, sentence, share):
        body = {"sentence": sentence}
        if share:
            body["answers"] = {"scope": f"{share} %"}
        connection = http.client.HTTPConnection(self.host, timeout=600)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/intake", json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status == 400:
            # A sentence that norma has a question about instead of a contract covers nothing.
            print(f"  refused: {sentence}: {text}", file=sys.stderr)
            return []
        if answer.status != 200:
            raise SystemExit(f"{sentence!r}: {answer.status} {text}")
        return json.loads(text)["contract"].get("allowed_paths")


def holds(path, file):
    return file == path or file.startswith(path + "/")


def guarded(file):
    """Whether only a scope that names it holds a file: the same as norma's own list for what commits usually touch."""
    return file.startswith(".github/workflows/") or file.rsplit("/", 1)[-1] in (".gitignore", ".gitattributes")


def measured(scope, files, tree):
    """Whether a scope covers the files of a commit, and the share of the tree that it holds."""
    if scope is None:
        return True, 1.0
    names = lambda path, file: path == file or (holds(path, file) and guarded(path + "/x"))
    covers = all(any(names(path, file) if guarded(file) else holds(path, file) for path in scope) for file in files)
    single, directories = {path for path in scope if path in tree}, [path for path in scope if path not in tree]
    held = sum(file in single or any(holds(path, file) for path in directories) for file in tree)
    return covers, held / len(tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--norma", required=True)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--shares", default="1,2,5,10,20,50")
    parser.add_argument("--misses", action="store_true", help="name what is not covered at the last share of at most 10 %%")
    parser.add_argument("repositories", nargs="+")
    options = parser.parse_args()
    shares = [int(share) for share in options.shares.split(",")]
    everything = []
    for repository in options.repositories:
        results = []
        with tempfile.TemporaryDirectory(prefix="norma-intake-") as home:
            served = Served(os.path.abspath(options.norma), os.path.abspath(repository), home)
            chosen = list(commits(repository, options.commits, options.skip))
            served.checkout(chosen[0][1])
            served.start()
            try:
                for _, parent, subject, files in chosen:
                    served.checkout(parent)
                    tree = set(git(served.root, "ls-tree", "-r", "-z", "--name-only", parent).split("\0")) - {""}
                    asked = {share: measured(served.intake(subject, share), files, tree) for share in [None, *shares]}
                    results.append(asked)
                    if options.misses and not asked[None][0]:
                        print(f"  not covered: {subject}: {', '.join(files[:4])}", file=sys.stderr)
            finally:
                served.stop()
        print(line(os.path.basename(repository.rstrip("/")), results, shares), flush=True)
        everything += results
    print(line("all", everything, shares))
    within = sum(covers and share <= 0.1 for covers, share in (result[None] for result in everything))
    print(json.dumps({"commits": len(everything), "covered_within_10_percent": round(100 * within / len(everything), 1)}))


def line(name, results, shares):
    proposed = [result[None] for result in results]
    covered = sum(covers and share <= 0.1 for covers, share in proposed)
    mean = sum(share for _, share in proposed) / len(proposed)
    curve = [f"{share}%: {100 * sum(result[share][0] for result in results) / len(results):.0f}" for share in shares]
    return (f"{name:24} {len(results):5} commits, unasked: {100 * covered / len(proposed):.1f} % covered at <= 10 % "
            f"(mean {100 * mean:.1f} % of the tree); by share: {', '.join(curve)}")


if __name__ == "__main__":
    main()
