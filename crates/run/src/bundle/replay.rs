//! `proof/replay-<task>.sh`: a script with which anybody who has the repository shows again that the tree before a
//! change and its patch make the tree after it, without touching their files.

use super::record::Record;
use super::{Content, Piece};
use contract::ItemStatus;

const SCRIPT: &str = include_str!("replay.sh");

/// The script of an item that succeeded.
pub(super) fn script(record: &Record<'_>, place: u32) -> Option<Piece> {
    let (item, kept) = (&record.run.items()[place as usize].item, record.kept.get(&place)?);
    let receipt = &kept.receipt;
    if record.ended(place)?.status != ItemStatus::Success {
        return None;
    }
    // What changes nothing lands nowhere; it stays what its agent started from.
    let before = record.before(place).unwrap_or(receipt.git.base_commit);
    let patch = record.patch_of(place).map(|_| format!("../patches/{}.diff", item.id));
    let values = [
        ("@run@", record.run.id.slug().to_string()),
        ("@task@", item.id.clone()),
        ("@before@", before.to_string()),
        ("@before_hash@", receipt.before_hash.to_string()),
        ("@after_hash@", receipt.after_hash.to_string()),
        ("@patch@", patch.unwrap_or_default()),
    ];
    let fill = |text: String, (name, value): &(&str, String)| text.replace(name, &quoted(value));
    let text = values.iter().fold(SCRIPT.to_owned(), fill);
    Some(Piece { path: format!("proof/replay-{}.sh", item.id), content: Content::Bytes(text.into_bytes()) })
}

/// One word of a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn no_text_gets_out_of_its_quotes() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("'; rm -rf ~; '"), r"''\''; rm -rf ~; '\'''");
    }
}
