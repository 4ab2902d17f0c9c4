//! The pages of `docs/` that an installed norma carries with it, since it has no `docs/` beside it: `norma help contracts`
//! prints one of them. The files are the same that a reader of the repository sees, so there is one text to keep right.

mod render;

/// One topic.
pub(crate) struct Page {
    /// What is typed behind `norma help`.
    pub(crate) name: &'static str,
    /// What it is about, in the list of topics.
    pub(crate) about: &'static str,
    markdown: &'static str,
    /// The only section that it consists of, where it is not the whole file.
    section: Option<&'static str>,
}

/// A file of `docs/` as a page of the same name.
macro_rules! page {
    ($name:literal, $about:literal) => {
        Page {
            name: $name,
            about: $about,
            markdown: include_str!(concat!("../../../docs/", $name, ".md")),
            section: None,
        }
    };
}

/// Every page, in the order in which a newcomer needs them.
pub(crate) const PAGES: [Page; 32] = [
    page!("quickstart", "the first run with Claude, Codex, Gemini, OpenCode or another agent"),
    page!("install", "installing from source or an archive, completions, editors"),
    page!("troubleshooting", "messages, what causes them, and the command that helps"),
    page!("cli", "every verb"),
    Page {
        name: "exit-codes",
        about: "what each exit code means",
        markdown: include_str!("../../../docs/cli.md"),
        section: Some("Exit codes"),
    },
    page!("config", "the configuration file: agents, budgets, limits, landing"),
    page!("contracts", "what an agent may do, and which tests must pass"),
    page!("batches", "many work items, in parallel, landed in order"),
    page!("graphs", "graphs of agents that live, are talked to and hand work to each other"),
    page!("approvals", "what needs a person's approval, and how to give it"),
    page!("landing", "how a result reaches your branch, and how to undo it"),
    page!("known-agents", "Claude, Codex, Gemini, OpenCode and agents with ACP"),
    page!("agents", "any executable as an agent: its request and its answer"),
    page!("workspaces", "the private copy of the repository that an agent works in"),
    page!("workspace-setup", "dependencies, builds and local files for agents"),
    page!("gates", "the checks that every change must pass"),
    page!("sandbox", "how agents are confined"),
    page!("receipts", "signed receipts, keys and bundles"),
    page!("bundle", "the files of an exported run"),
    page!("replay", "judging or carrying out a run again"),
    page!("hooks", "git hooks that check your own commits against a contract"),
    page!("intents", "compiling an intent into plan, patch and tests"),
    page!("recipes", "templates of intents"),
    page!("pipelines", "from a sentence to contracts, reviews, fixes and a merged change"),
    page!("backends", "where programs run: the kernel, virtual machines, a service"),
    page!("host", "several terminals and runs at once"),
    page!("run", "from a sentence to a landed change"),
    page!("server", "every run over HTTP, WebSocket and server-sent events"),
    page!("views", "how every run is shown as a graph and a stream of events"),
    page!("storage", "the state directory, its log and its recovery"),
    page!("redaction", "how secrets are kept out of logs and evidence"),
    page!("logging", "what norma itself is doing: -v and NORMA_LOG"),
];

/// The page of a topic.
pub(crate) fn find(name: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.name == name)
}

/// The topics, one a line.
pub(crate) fn topics() -> String {
    PAGES.iter().map(|page| format!("  {:<16} {}\n", page.name, page.about)).collect()
}

impl Page {
    /// As `docs/` has it.
    pub(crate) fn markdown(&self) -> String {
        match self.section {
            Some(title) => section(self.markdown, title),
            None => self.markdown.to_owned(),
        }
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        render::text(&self.markdown())
    }
}

/// A section with its heading, up to the next heading.
fn section(markdown: &str, title: &str) -> String {
    let is_heading = |line: &str| line.starts_with('#');
    let mut lines =
        markdown.lines().skip_while(|line| !(is_heading(line) && line.trim_start_matches('#').trim() == title));
    let heading = lines.next().unwrap_or_default();
    let body = lines.take_while(|line| !is_heading(line));
    std::iter::once(heading).chain(body).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_text_and_names_are_unique() {
        for (place, page) in PAGES.iter().enumerate() {
            assert!(page.text().lines().count() > 3, "{}", page.name);
            assert_eq!(PAGES.iter().position(|other| other.name == page.name), Some(place), "{}", page.name);
        }
    }

    #[test]
    fn a_section_is_cut_out_with_its_heading() {
        assert_eq!(section("# A\na\n## B\nb\nc\n## C\nd\n", "B"), "## B\nb\nc\n");
    }
}
