//! `cargo xtask <verb>`: the one entry point of this project's automation. People and CI call the same verbs;
//! each answers with a summary, or with every problem it found, and the exit code tells which.

mod agents;
mod bench;
mod logs;
mod packages;
mod parts;
mod playwright;
mod release;
mod schemathesis;
mod seeds;
mod soak;
mod test;
mod tidy;
mod ui;
mod verbs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a verb answers: a summary, or every problem it found.
type Outcome = Result<String, Vec<String>>;

const USAGE: &str = "usage: cargo xtask <verb>

  test [ARGS]             agents if they can be had, build, every test that ARGS select, as for cargo test; seeds, tidy,
                          and advisories where cargo-deny is installed
  soak [--seeds N] [days|crashes|syscalls|power|recovery|capture|cases|honest|server|graph]…
                          the long series of the suites that kill, cut the power and simulate
  ci                      fmt, clippy, test: what must hold before a commit
  tidy                    the rules of this code base that no other tool knows
  seeds [--json]
                          docs/conformance.md promises nothing that is not there
  schemas                 rewrite schemas/ from the types
  agents [--json]         install the real agent programs that tests drive, below target/agents/
  ui [--check|--screenshots]
                          build the web page into ui/dist (needs Node), or build it again and compare, or write pictures
                          of it to docs/ui
  day1                    a pipeline with the four real agents: landed, refused, fixed, replayed, confined
  playwright              install what drives the browser that pages are tested in, below target/playwright/
  schemathesis            install what checks the server against its own document, below target/schemathesis/
  logs [--norma PROGRAM]  write runs of this version to testing/logs/, for every later version to verify and replay
  release [--profile P] [--allow-dirty]
                          an archive with both programs, checksums, SBOM and provenance, in target/dist-archive/
  bench [--quick] [--write] [--dir DIR] [step|batch|agents|workspace|log|runs|concurrent|spawn|transfer|memory|bundle]…
                          measure; --write replaces docs/benchmarks.md, or the named sections of it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((verb, args)) = args.split_first() else {
        return fail(&[USAGE.to_owned()]);
    };
    let root = root();
    let outcome = match verb.as_str() {
        "test" => test::run(&root, args),
        "soak" => soak::run(&root, args),
        "ci" => verbs::ci(&root),
        "tidy" => tidy::check(&root),
        "seeds" => seeds::check(&root, args),
        "schemas" => verbs::schemas(&root),
        "agents" => agents::run(&root, args),
        "schemathesis" => schemathesis::run(&root),
        "playwright" => playwright::run(&root),
        "bench" => bench::run(&root, args),
        "ui" => ui::run(&root, args),
        "day1" => verbs::day1(&root),
        "logs" => logs::run(&root, args),
        "release" => release::run(&root, args),
        "help" | "--help" | "-h" => Ok(USAGE.to_owned()),
        other => Err(vec![format!("unknown verb `{other}`\n\n{USAGE}")]),
    };
    match outcome {
        Ok(summary) => say(&summary),
        Err(problems) => fail(&problems),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("BUG: xtask lies in the workspace").to_owned()
}

#[expect(clippy::print_stdout, reason = "the answer of a verb")]
fn say(summary: &str) -> ExitCode {
    if !summary.is_empty() {
        println!("{summary}");
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "the problems a verb found")]
fn fail(problems: &[String]) -> ExitCode {
    for problem in problems {
        eprintln!("{problem}");
    }
    ExitCode::FAILURE
}
