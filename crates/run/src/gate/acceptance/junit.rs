//! JUnit's XML, which many runners can write: every test case is an element, with an element in it that says why it did
//! not pass. It is read as a row of tags, never as a document: nothing is expanded, nothing is nested, and a file that
//! was cut off counts as far as it goes.

use super::counts::{Found, added, failed, passed, skipped};

/// How the ways to name such a file in a command begin.
const OPTIONS: [&str; 3] = ["--junitxml", "--junit-xml", "--test-reporter-destination"];

/// The counts of a report; none if these bytes are none.
pub fn counted(bytes: &[u8]) -> Found {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if ![&b"<?xml"[..], b"<testsuite"].iter().any(|start| text.starts_with(start)) {
        return None;
    }
    let (mut total, mut open, mut is_report) = (None, None, false);
    for tag in Tags(text) {
        is_report |= matches!(tag.name, b"testsuites" | b"testsuite");
        match (tag.name, tag.kind) {
            (b"testcase", Kind::Whole) => total = added(total, passed(1)),
            (b"testcase", Kind::Opening) => open = passed(1),
            (b"testcase", Kind::Closing) => total = added(total, open.take()),
            (b"failure" | b"error", Kind::Opening | Kind::Whole) if open.is_some() => open = failed(1),
            // One that failed and was skipped failed.
            (b"skipped", Kind::Opening | Kind::Whole) if open == passed(1) => open = skipped(1),
            _ => {}
        }
    }
    if is_report { added(passed(0), total) } else { None }
}

/// The report that a command says it will write, relative to where it starts.
pub fn file_named(argv: &[String]) -> Option<&str> {
    let mut words = argv.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if OPTIONS.contains(&option) {
            return value.or_else(|| words.next());
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Opening,
    Closing,
    Whole,
}

struct Tag<'a> {
    name: &'a [u8],
    kind: Kind,
}

/// The tags of what is left of a text, in order.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let start = self.0.iter().position(|byte| *byte == b'<')?;
            self.0 = &self.0[start + 1..];
            let hidden = [(&b"!--"[..], &b"-->"[..]), (b"![CDATA[", b"]]>"), (b"?", b"?>")];
            match hidden.iter().find(|(begin, _)| self.0.starts_with(begin)) {
                Some((_, end)) => self.0 = after(self.0, end)?,
                None => return self.tag(),
            }
        }
    }
}

impl<'a> Tags<'a> {
    fn tag(&mut self) -> Option<Tag<'a>> {
        let end = end_of_tag(self.0)?;
        let (inside, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        let (kind, inside) = match (inside.strip_prefix(b"/"), inside.strip_suffix(b"/")) {
            (Some(name), _) => (Kind::Closing, name),
            (None, Some(inside)) => (Kind::Whole, inside),
            (None, None) => (Kind::Opening, inside),
        };
        let name = inside.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        Some(Tag { name, kind })
    }
}

/// Where a tag ends: a `>` between quotes is part of a value.
fn end_of_tag(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    text.iter().position(|byte| {
        match (quote, byte) {
            (None, b'>') => return true,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
        false
    })
}

fn after<'a>(text: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(end.len()).position(|window| window == end)?;
    Some(&text[at + end.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::work::TestCounts;

    #[track_caller]
    fn check(report: &str, expected: Option<(u64, u64, u64)>) {
        let expected = expected.map(|(passed, failed, skipped)| TestCounts { passed, failed, skipped });
        assert_eq!(counted(report.as_bytes()), expected, "{report}");
    }

    #[test]
    fn a_report_of_pytest_counts() {
        let report = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="7"><testcase classname="test_a" name="test_ok" time="0.000" /><testcase classname="test_a" name="test_ok2" time="0.000" /><testcase classname="test_a" name="test_bad" time="0.001"><failure message="assert 1 == 2">&gt;   def test_bad(): assert 1 == 2
test_a.py:4: AssertionError</failure></testcase><testcase classname="test_a" name="test_skip" time="0.000"><skipped type="pytest.skip" message="later">test_a.py:5: later</skipped></testcase><testcase classname="test_a" name="test_xfail" time="0.000"><skipped type="pytest.xfail" message="" /></testcase><testcase classname="test_a" name="test_xpass" time="0.000" /><testcase classname="test_a" name="test_err" time="0.000"><error message="failed on setup with &quot;RuntimeError: x&quot;">@pytest.fixture</error></testcase></testsuite></testsuites>"#;
        check(report, Some((3, 2, 2)));
    }

    #[test]
    fn a_report_of_node_counts_where_it_is_printed() {
        let report = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<testsuites>\n\t<testcase name=\"ok\" time=\"0.1\"/>\n\
                      \t<testcase name=\"bad > worse\" classname=\"test\" failure=\"1 == 2\">\n\
                      \t\t<failure type=\"testCodeFailure\">x</failure>\n\t</testcase>\n\
                      \t<testcase name=\"todo\">\n\t\t<skipped type=\"todo\" message=\"true\"/>\n\t</testcase>\n\
                      \t<testsuite name=\"s\" tests=\"1\">\n\t\t<testcase name=\"in\"/>\n\t</testsuite>\n\
                      \t<!-- tests 5 -->\n\t<!-- pass 2 -->\n</testsuites>\n";
        let expected = TestCounts { passed: 2, failed: 1, skipped: 1 };
        assert_eq!(super::super::counted(report.as_bytes(), b""), Some(expected));
    }

    #[test]
    fn what_a_test_printed_is_not_part_of_the_report() {
        let report = "<testsuite><testcase name='a'><system-out><![CDATA[<failure/></testcase><testcase/>]]></system-out>\
                      <!-- <failure/> --></testcase></testsuite>";
        check(report, Some((1, 0, 0)));
    }

    #[test]
    fn what_is_not_a_report_counts_nothing() {
        check("", None);
        check("<html><testcase/></html>", None);
        check("<?xml version='1.0'?><project><testcase/></project>", None);
        check("<testsuites></testsuites>", Some((0, 0, 0)));
        check("<testsuite><testcase/><testcase><failure>", Some((1, 0, 0)));
    }

    #[test]
    fn a_command_names_its_report() {
        let named = |line: &str| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            file_named(&argv).map(str::to_owned)
        };
        assert_eq!(named("pytest --junitxml=out/r.xml"), Some("out/r.xml".to_owned()));
        assert_eq!(named("pytest --junit-xml r.xml -q"), Some("r.xml".to_owned()));
        assert_eq!(named("node --test --test-reporter-destination=r.xml"), Some("r.xml".to_owned()));
        assert_eq!(named("pytest --junitxml"), None);
        assert_eq!(named("cargo test"), None);
    }
}
