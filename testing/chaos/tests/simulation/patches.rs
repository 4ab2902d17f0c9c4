//! The patches that an `act` of this world leaves: real ones, on the tree that it was given, most of them good.

use crate::dice::Dice;
use crate::ground::{FILES, Ground, LINES, with_line};
use runner::git::ObjectId;

/// A patch for a tree, or none.
pub(crate) fn propose(dice: &mut Dice, ground: &Ground, tree: ObjectId) -> Option<String> {
    let path = *dice.pick(&FILES);
    let text = ground.text(tree, path).unwrap_or_default();
    let line = with_line(&text, 1 + dice.below(LINES), &format!("changed {}", dice.below(4)));
    Some(match dice.below(24) {
        0 => edit(path, &with_line(&text, 1, "what nobody wrote"), &line),
        1 => add(".git/x", "100644", "x"),
        2 => add("l", "120000", "a.txt"),
        3 => ["d", "e", "f", "g"].map(|name| add(name, "100644", "new")).concat(),
        4 => add("large.txt", "100644", &"x".repeat(5000)),
        5 => add(".github/workflows/ci.yml", "100644", "on: push"),
        6 => "this is no patch\n".to_owned(),
        7 => remove(path, &text),
        8 if ground.text(tree, "new.txt").is_none() => add("new.txt", "100755", "new"),
        9 | 10 => return None,
        _ => edit(path, &text, &line),
    })
}

fn add(path: &str, mode: &str, line: &str) -> String {
    let header = format!("diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n");
    // A link's target has no line end.
    let end = if mode == "120000" { "\\ No newline at end of file\n" } else { "" };
    format!("{header}@@ -0,0 +1 @@\n+{line}\n{end}")
}

fn edit(path: &str, old: &str, new: &str) -> String {
    let header = format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n");
    format!("{header}@@ -1,{} +1,{} @@\n{}{}", old.lines().count(), new.lines().count(), all('-', old), all('+', new))
}

fn remove(path: &str, old: &str) -> String {
    let header = format!("diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n");
    format!("{header}@@ -1,{} +0,0 @@\n{}", old.lines().count(), all('-', old))
}

fn all(sign: char, text: &str) -> String {
    text.lines().map(|line| format!("{sign}{line}\n")).collect()
}
