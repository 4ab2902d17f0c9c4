#!/usr/bin/env python3
"""Records the first five minutes of a new user as text: a terminal (tmux) in a small real repository that norma has never
seen, one of the real agents with the scripted model behind it, one sentence, one key.

    record.py --norma PROGRAM --model PROGRAM --agents DIR --into DIR [--only AGENT-LANGUAGE …]

PROGRAM are built ones of norma and of the scripted model, `--agents` is the folder that `cargo xtask agents` fills. Each
recording is one file with what the terminal showed at moments that matter: the question, the work, the end. What is
missing on the machine (tmux, go, npm, a network for pytest) is said and counted, never passed over in silence.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 90
KEY = "sk-real-key-0123456789abcdef"

RUST_FIXED = '//! Slugs.\n\n/// Letters and digits, joined by dashes.\npub fn slugify(text: &str) -> String {\n    let lower = text.to_lowercase();\n    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());\n    words.collect::<Vec<_>>().join("-")\n}\n\n/// A slug with a number.\npub fn numbered(text: &str, number: u32) -> String {\n    format!("{}-{}", slugify(text), itoa::Buffer::new().format(number))\n}\n'

# What a model does for each repository: it looks, changes one file and answers.
FIXES = {
    "python": ("slug/text.py", 'import re\n\n\ndef slugify(text):\n    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))\n'),
    "node": ("slug.js", "const ms = require('ms');\n\nmodule.exports.slugify = (text) => (text.toLowerCase().match(/[a-z0-9]+/g) || []).join('-');\nmodule.exports.age = (time) => ms(time);\n"),
    "rust": ("src/lib.rs", RUST_FIXED),
    "go": ("slug.go", 'package slug\n\nimport (\n\t"strings"\n\n\t"example.org/words"\n)\n\n// Slugify joins letters and digits by dashes.\nfunc Slugify(text string) string {\n\treturn strings.Join(words.Of(strings.ToLower(text)), "-")\n}\n'),
}

SENTENCE = "slugify must drop punctuation, the tests say how"


def run(*args, cwd=None, env=None):
    subprocess.run(args, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def python(root):
    write(root, {
        "slug/__init__.py": "",
        "slug/text.py": 'def slugify(text):\n    return "-".join(text.lower().split())\n',
        "tests/test_text.py": 'from slug.text import slugify\n\n\ndef test_words():\n    assert slugify("Hello World") == "hello-world"\n\n\ndef test_punctuation():\n    assert slugify("Hello, World!") == "hello-world"\n',
        "pyproject.toml": '[project]\nname = "slug"\nversion = "0.1.0"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
        ".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\n",
    })
    run(sys.executable, "-m", "venv", ".venv", cwd=root)
    run(str(root / ".venv/bin/pip"), "install", "--quiet", "pytest", cwd=root)


def node(root):
    write(root, {
        "package.json": json.dumps({"name": "slug", "version": "0.1.0", "private": True, "scripts": {"test": "node --test"}, "dependencies": {"ms": "^2.1.3"}}, indent=2) + "\n",
        "slug.js": "const ms = require('ms');\n\nmodule.exports.slugify = (text) => text.toLowerCase().split(' ').join('-');\nmodule.exports.age = (time) => ms(time);\n",
        "test/slug.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { slugify, age } = require('../slug.js');\n\ntest('words', () => assert.strictEqual(slugify('Hello World'), 'hello-world'));\ntest('punctuation', () => assert.strictEqual(slugify('Hello, World!'), 'hello-world'));\ntest('age', () => assert.strictEqual(age('1s'), 1000));\n",
        ".gitignore": "node_modules/\n",
    })
    run("npm", "install", "--silent", "--no-audit", "--no-fund", cwd=root)


def rust(root):
    write(root, {
        "Cargo.toml": '[package]\nname = "slug"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\nitoa = "1"\n',
        "src/lib.rs": RUST_FIXED.replace("split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())", "split_whitespace()"),
        "tests/slug.rs": '#[test]\nfn words() {\n    assert_eq!(slug::slugify("Hello World"), "hello-world");\n}\n\n#[test]\nfn punctuation() {\n    assert_eq!(slug::slugify("Hello, World!"), "hello-world");\n}\n\n#[test]\nfn numbers() {\n    assert_eq!(slug::numbered("a b", 7), "a-b-7");\n}\n',
        ".gitignore": "/target\n",
    })
    run("cargo", "generate-lockfile", "--quiet", cwd=root)
    run("cargo", "fetch", "--quiet", cwd=root)


def go(root):
    words = 'package words\n\nimport "strings"\n\n// Of splits a text at everything that is no letter or digit.\nfunc Of(text string) []string {\n\treturn strings.FieldsFunc(text, func(r rune) bool { return !(r >= \'a\' && r <= \'z\' || r >= \'0\' && r <= \'9\') })\n}\n'
    write(root, {
        "go.mod": "module example.org/slug\n\ngo 1.19\n\nrequire example.org/words v0.0.0\n\nreplace example.org/words => ./words\n",
        "words/go.mod": "module example.org/words\n\ngo 1.19\n",
        "words/words.go": words,
        "slug.go": 'package slug\n\nimport (\n\t"strings"\n\n\t_ "example.org/words"\n)\n\n// Slugify joins words by dashes.\nfunc Slugify(text string) string {\n\treturn strings.Join(strings.Fields(strings.ToLower(text)), "-")\n}\n',
        "slug_test.go": 'package slug\n\nimport "testing"\n\nfunc TestSlugify(t *testing.T) {\n\tfor in, want := range map[string]string{"Hello World": "hello-world", "Hello, World!": "hello-world"} {\n\t\tif got := Slugify(in); got != want {\n\t\t\tt.Errorf("Slugify(%q) = %q, want %q", in, got, want)\n\t\t}\n\t}\n}\n',
    })
    run("go", "mod", "vendor", cwd=root)


REPOSITORIES = {"python": python, "node": node, "rust": rust, "go": go}
MODELS = {"codex": "gpt-5.5", "claude": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash", "opencode": "gpt-5.5"}
KEYS = {"codex": "OPENAI_API_KEY", "claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY", "opencode": "OPENAI_API_KEY"}


class Terminal:
    """A window of tmux that is read as a person would read it."""

    def __init__(self, name, cwd, env):
        self.name = name
        self.frames = []
        self.tmux("new-session", "-d", "-s", name, "-x", "110", "-y", "44", "-c", str(cwd), "env", "-i", *[f"{k}={v}" for k, v in env.items()], "bash", "--norc", "--noprofile")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", "first-five", *args], check=True, stdout=subprocess.PIPE, text=True).stdout

    def screen(self):
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p", "-t", self.name).splitlines()).rstrip()

    def type(self, text, enter=True):
        self.tmux("send-keys", "-t", self.name, "-l", text)
        if enter:
            self.tmux("send-keys", "-t", self.name, "Enter")

    def until(self, pattern, note):
        """Waits until the screen shows something, and keeps that screen."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            screen = self.screen()
            if re.search(pattern, screen):
                self.frames.append((note, screen))
                return screen
            time.sleep(0.2)
        self.frames.append((f"{note}: NOT SEEN", self.screen()))
        raise TimeoutError(f"{self.name}: {note}: {pattern!r} not seen:\n{self.screen()}")

    def close(self):
        self.tmux("kill-session", "-t", self.name)


def record(args, agent, language, model_port, place):
    home, root, bin_dir = place / "home", place / f"slug-{language}", place / "bin"
    for made in (home / ".config/norma", root, bin_dir):
        made.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
    run("git", "init", "--quiet", "-b", "main", cwd=root)
    REPOSITORIES[language](root)
    (root / "AGENTS.md").write_text("Small steps. Run the tests.\n<!-- SCN=fix -->\n")
    git = {"HOME": str(home), "PATH": os.environ["PATH"]}
    run("git", "add", "--all", cwd=root, env=git)
    run("git", "commit", "--quiet", "-m", "Slugs", cwd=root, env=git)
    # A dirty tree is the normal state.
    (root / "notes.txt").write_text("not committed\n")
    programs = json.loads((pathlib.Path(__file__).parent.parent / "agents/programs.json").read_text())
    program = pathlib.Path(args.agents).resolve() / "node_modules" / programs[os.uname().machine][agent]
    (bin_dir / "norma").symlink_to(pathlib.Path(args.norma).resolve())
    configuration = {"agents": {agent: {"type": agent, "model": MODELS[agent], "base_url": f"http://127.0.0.1:{model_port}", "bin": str(program)}}}
    (home / ".config/norma/config.json").write_text(json.dumps(configuration))
    # The real home, since rustup's toolchains are there; what norma and git keep in one is another's.
    own = {"XDG_CONFIG_HOME": str(home / ".config"), "XDG_DATA_HOME": str(home / ".local/share"), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    env = {"HOME": str(pathlib.Path.home()), **own, "PATH": f"{bin_dir}:{os.environ['PATH']}", "TERM": "screen-256color", "LC_ALL": "C.UTF-8", "PS1": "$ ", KEYS[agent]: KEY, **args.passed_on}
    terminal = Terminal(f"{agent}-{language}", root, env)
    try:
        terminal.until(r"\$\s*$", "a terminal")
        terminal.type(f'norma run "{SENTENCE}" --agent {agent}')
        terminal.until(r"q leave *$", "the contract")
        terminal.type("r", enter=False)
        end = terminal.until(r"undo: norma undo|next: ", "the end")
        terminal.type("clear; git log --oneline -2; git status --short; norma show | head -30")
        terminal.until(r"(?s)notes\.txt.*\$\s*$", "what is there now")
        return terminal.frames, None if "landed main" in end else "it did not land"
    except TimeoutError as error:
        return terminal.frames, str(error)
    finally:
        terminal.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--norma", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--agents", required=True)
    parser.add_argument("--into", required=True)
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    args.passed_on = {name: os.environ[name] for name in ("PYENV_ROOT",) if name in os.environ}
    missing = [name for name in ("tmux", "go", "npm", "cargo", "git") if not shutil.which(name)]
    if missing:
        sys.exit(f"not run: {', '.join(missing)} not installed")
    into = pathlib.Path(args.into)
    into.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for agent in MODELS:
        for language in REPOSITORIES:
            if args.only and f"{agent}-{language}" not in args.only:
                continue
            with tempfile.TemporaryDirectory(prefix="first-five-") as folder:
                place = pathlib.Path(folder).resolve()
                path, content = FIXES[language]
                answer = {"version": 1, "status": "ok", "summary": "slugify keeps letters and digits only", "files": [], "next_actions": [], "errors": []}
                scripts = {"fix": [{"read": {"path": path}}, {"write": {"path": path, "content": content}}, {"structured": answer}, {"text": "Done."}]}
                (place / "scripts.json").write_text(json.dumps(scripts))
                model = subprocess.Popen([args.model, "--scenarios", str(place / "scripts.json"), "--key", KEY, "--stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                port = json.loads(model.stdout.readline())["port"]
                frames, problem = record(args, agent, language, port, place)
                model.stdin.close()
                model.wait()
                text = "".join(f"── {note} " + "─" * (96 - len(note)) + f"\n{screen}\n\n" for note, screen in frames if note != "a terminal")
                text = text.replace(str(place), "/home/ada").replace(str(place).replace("/tmp", "…"), "/home/ada")
                (into / f"{agent}-{language}.txt").write_text(text)
                passed, failed = passed + (problem is None), failed + (problem is not None)
                print(f"{agent}-{language}: {'ok' if problem is None else problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
