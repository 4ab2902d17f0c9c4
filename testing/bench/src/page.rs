//! The page: the machine, how to read it, and a table for each benchmark.

use std::fmt::Write;

/// One benchmark's part of the page.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// What is measured and what the floor is.
    pub(crate) about: String,
    pub(crate) tables: Vec<Table>,
}

/// A table of cells.
pub(crate) struct Table {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table { header: header.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.header.len(), "BUG: a row has as many cells as the header");
        self.rows.push(cells);
    }
}

const INTRODUCTION: &str = "\
# Benchmarks

Written by `cargo xtask bench --write`; do not edit. Every figure is from one run on one machine, and every
target is a ratio to a floor that was measured in that same run, between the samples, on the same disk: a
number without its floor says more about the disk than about norma. Figures are medians unless a column says
otherwise. Nothing is asserted on a wall clock; the last column says whether the target holds in this run. On a
machine with other load (see the load average) expect the tails, and sometimes the ratios, to be worse.
";

/// The whole page.
pub(crate) fn render(host: &[(&str, String)], sections: &[Section], quick: bool) -> String {
    let mut page = INTRODUCTION.to_owned();
    if quick {
        page.push_str("\n**Quick run**: few rounds and small sizes. To see that it works, not to quote.\n");
    }
    page.push_str("\n## Machine\n\n| | |\n|---|---|\n");
    for (name, value) in host {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    for section in sections {
        let _ = write!(page, "\n## {}\n\n{}\n", section.title, section.about);
        section.tables.iter().for_each(|table| render_table(table, &mut page));
    }
    page
}

/// The page with these sections in place of what it said of them, each with the machine's state of its own run; one that
/// is new comes last.
pub(crate) fn replace(page: &str, host: &[(&str, String)], sections: &[Section]) -> String {
    let said = |name: &str| host.iter().find(|(known, _)| *known == name).map_or("–", |(_, value)| value.as_str());
    let mut page = page.to_owned();
    for section in sections {
        let about = format!(
            "{}\n\nThis section: {}, commit {}, load average at start {}.",
            section.about,
            said("date"),
            said("commit"),
            said("load average at start")
        );
        let mut text = format!("\n## {}\n\n{about}\n", section.title);
        section.tables.iter().for_each(|table| render_table(table, &mut text));
        let heading = format!("\n## {}\n", section.title);
        match page.find(&heading) {
            Some(start) => {
                let rest = start + heading.len();
                let end = page[rest..].find("\n## ").map_or(page.len(), |at| rest + at);
                page.replace_range(start..end, &text);
            }
            None => page.push_str(&text),
        }
    }
    page
}

fn render_table(table: &Table, page: &mut String) {
    let _ = write!(page, "\n| {} |\n|{}\n", table.header.join(" | "), "---|".repeat(table.header.len()));
    for row in &table.rows {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
}

/// Says whether a figure stays within its target.
pub(crate) fn at_most(figure: f64, target: f64) -> String {
    word(figure <= target)
}

/// Says whether a figure reaches its target.
pub(crate) fn at_least(figure: f64, target: f64) -> String {
    word(figure >= target)
}

fn word(holds: bool) -> String {
    if holds { "holds" } else { "falls short" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_takes_the_place_of_its_earlier_self() {
        let section = |title, about: &str| Section { title, about: about.to_owned(), tables: Vec::new() };
        let page = "# Page\n\n## A\n\nold a\n\n## B\n\nold b\n";
        let host = [("date", "today".to_owned())];
        let page = replace(page, &host, &[section("A", "new a"), section("C", "new c")]);
        assert!(page.contains("## A\n\nnew a\n\nThis section: today, commit –"), "{page}");
        assert!(page.contains("\n## B\n\nold b\n") && page.contains("\n## C\n\nnew c\n"), "{page}");
        assert!(!page.contains("old a"), "{page}");
    }

    #[test]
    fn a_page_has_the_machine_and_a_table_for_each_benchmark() {
        let mut table = Table::new(&["what", "target", ""]);
        table.row(vec!["a".into(), "≤ 2".into(), at_most(1.9, 2.0)]);
        let section = Section { title: "A", about: "About a.".into(), tables: vec![table] };
        let page = render(&[("CPU", "fast".into())], &[section], false);
        let expected =
            "| CPU | fast |\n\n## A\n\nAbout a.\n\n| what | target |  |\n|---|---|---|\n| a | ≤ 2 | holds |\n";
        assert!(page.ends_with(expected), "{page}");
        assert_eq!(at_least(9.0, 10.0), "falls short");
    }
}
