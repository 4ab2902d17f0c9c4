//! Markdown for a terminal: as much of it as `docs/` uses. Paragraphs are wrapped, links name the page to ask for, and a
//! table that is too wide becomes a list. Code is printed as it is, so that it can be copied.

/// Longest line of running text.
const WIDTH: usize = 96;

/// A first column up to this wide has its text beside it.
const NARROW: usize = 24;

/// Renders a page.
pub(super) fn text(markdown: &str) -> String {
    let lines: Vec<&str> = markdown.lines().collect();
    let mut out = Out::default();
    let mut at = 0;
    while at < lines.len() {
        let rest = &lines[at..];
        at += match lines[at].trim_start() {
            "" => out.blank(),
            line if line.starts_with("```") => out.code(rest),
            line if line.starts_with("<!--") => out.comment(rest),
            line if line.starts_with('|') => out.table(rest),
            line if line.starts_with('#') => out.heading(line),
            _ => out.paragraph(rest),
        };
    }
    out.text.trim().to_owned() + "\n"
}

#[derive(Default)]
struct Out {
    text: String,
}

/// Each writes one block and answers how many lines of the source it was.
impl Out {
    fn blank(&mut self) -> usize {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        1
    }

    fn heading(&mut self, line: &str) -> usize {
        let level = line.chars().take_while(|c| *c == '#').count();
        let title = inline(line[level..].trim());
        self.blank();
        self.text.push_str(&match level {
            1 => format!("{}\n\n", title.to_uppercase()),
            2 => format!("{title}\n{}\n", "-".repeat(title.chars().count())),
            _ => format!("{title}\n"),
        });
        1
    }

    fn code(&mut self, lines: &[&str]) -> usize {
        let body = lines[1..].iter().take_while(|line| !line.trim_start().starts_with("```"));
        let mut count = 1;
        for line in body {
            self.text.push_str(format!("    {line}").trim_end());
            self.text.push('\n');
            count += 1;
        }
        count + 1
    }

    fn comment(&mut self, lines: &[&str]) -> usize {
        lines.iter().position(|line| line.contains("-->")).map_or(lines.len(), |end| end + 1)
    }

    fn table(&mut self, lines: &[&str]) -> usize {
        let rows: Vec<Vec<String>> =
            lines.iter().take_while(|line| line.trim_start().starts_with('|')).map(|line| cells(line)).collect();
        let is_rule = |row: &Vec<String>| row.iter().all(|cell| cell.chars().all(|c| "-: ".contains(c)));
        let (heads, body) = match rows.split_first() {
            Some((first, rest)) if rest.first().is_some_and(is_rule) => (first.clone(), &rest[1..]),
            _ => (Vec::new(), &rows[..]),
        };
        let all = || std::iter::once(&heads).filter(|heads| heads.iter().any(|it| !it.is_empty())).chain(body);
        let columns = body.iter().chain([&heads]).map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let sum = widths.iter().sum::<usize>();
        if columns == 2 && sum > WIDTH - 4 && widths[0] <= NARROW {
            for row in all() {
                let first = format!("  {:<width$}  ", row[0], width = widths[0]);
                let text = row.get(1).map_or("", String::as_str);
                self.wrap(text, &first, &" ".repeat(first.chars().count()));
            }
        } else if sum + 2 * columns <= WIDTH {
            for row in all() {
                let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
                self.text.push_str(&format!("  {}\n", padded.collect::<String>().trim_end()));
            }
        } else {
            body.iter().for_each(|row| self.entry(&heads, row));
        }
        rows.len()
    }

    /// A row of a table that is too wide: its first cell, and the others below.
    fn entry(&mut self, heads: &[String], row: &[String]) {
        let Some((first, rest)) = row.split_first() else { return };
        self.wrap(first, "  ", "    ");
        for (cell, head) in rest.iter().zip(heads.iter().skip(1)).filter(|(cell, _)| !cell.is_empty()) {
            let label = if rest.len() == 1 || head.is_empty() { String::new() } else { format!("{head}: ") };
            self.wrap(&format!("{label}{cell}"), "      ", "      ");
        }
    }

    /// A paragraph or one item of a list.
    fn paragraph(&mut self, lines: &[&str]) -> usize {
        let starts_block = |line: &str| {
            let line = line.trim_start();
            line.is_empty() || ["```", "|", "#", "<!--"].iter().any(|mark| line.starts_with(mark)) || bullet(line) > 0
        };
        let more = lines[1..].iter().take_while(|line| !starts_block(line)).count();
        let indent = lines[0].len() - lines[0].trim_start().len();
        let hanging = " ".repeat(indent + bullet(lines[0].trim_start()));
        let joined: Vec<&str> = lines[..=more].iter().map(|line| line.trim()).collect();
        self.wrap(&inline(&joined.join(" ")), &" ".repeat(indent), &hanging);
        more + 1
    }

    fn wrap(&mut self, text: &str, first: &str, next: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in text.split_whitespace() {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.text.push_str(&line);
                self.text.push('\n');
                line = next.to_owned();
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }
}

/// How long the mark of a list item is, with its space.
fn bullet(line: &str) -> usize {
    let number = line.chars().take_while(char::is_ascii_digit).count();
    match line {
        _ if line.starts_with("- ") || line.starts_with("* ") => 2,
        _ if number > 0 && line[number..].starts_with(". ") => number + 2,
        _ => 0,
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\u{0}");
    let line = line.strip_suffix('|').unwrap_or(&line);
    line.split('|').map(|cell| inline(&cell.trim().replace('\u{0}', "|"))).collect()
}

/// Text without what only a browser shows: emphasis, and where links lead, unless that is a page.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let parsed = link.split_once("](").and_then(|(words, behind)| Some((words, behind.split_once(')')?)));
        match parsed.filter(|(words, _)| !words.contains('[')) {
            Some((words, (target, behind))) => {
                out.push_str(before);
                out.push_str(&reference(words, target));
                rest = behind;
            }
            None => {
                out.push_str(before);
                out.push('[');
                rest = link;
            }
        }
    }
    out.push_str(rest);
    out.replace("**", "")
}

/// A link in words: the command that prints the page, where there is one.
fn reference(words: &str, target: &str) -> String {
    let file = target.split('#').next().unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
    let is_page = file.ends_with(".md") && !file.contains("decisions/") && super::find(name).is_some();
    match words.ends_with(".md") {
        _ if target.starts_with("http") => format!("{words} ({target})"),
        true if is_page => format!("`norma help {name}`"),
        false if is_page => format!("{words} (`norma help {name}`)"),
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(markdown: &str, expected: &str) {
        assert_eq!(text(markdown), expected);
    }

    #[test]
    fn headings_paragraphs_and_lists_are_plain_text() {
        check(
            "# Title\nSome **bold**\ntext.\n\n## Part\n- one\n  and more\n- two\n",
            "TITLE\n\nSome bold text.\n\nPart\n----\n- one and more\n- two\n",
        );
    }

    #[test]
    fn links_name_the_page_to_ask_for() {
        check(
            "See [config.md](config.md#budgets), [what lands](landing.md), [the code](../crates/x.rs) and a[0].",
            "See `norma help config`, what lands (`norma help landing`), the code and a[0].\n",
        );
    }

    #[test]
    fn code_is_kept_and_comments_are_left_out() {
        check("<!-- runs: demo -->\n```console\n$ norma  demo\n```\n", "    $ norma  demo\n".trim_start());
    }

    #[test]
    fn a_table_is_aligned_or_becomes_a_list() {
        check("| a | b |\n|---|---|\n| 1 | `x\\|y` |\n| 22 | z |\n", "a   b\n  1   `x|y`\n  22  z\n");
        let long = "word ".repeat(30);
        let beside = text(&format!("| a | b |\n|---|---|\n| k | {long} |\n"));
        assert!(beside.contains("\n  k  word word") && beside.contains("\n     word word"), "{beside}");
        let shown = text(&format!("| a | b | c |\n|---|---|---|\n| k | {long} | v |\n"));
        assert!(shown.starts_with("k\n      b: word word"), "{shown}");
        assert!(shown.ends_with("      c: v\n"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
    }
}
