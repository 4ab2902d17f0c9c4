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
