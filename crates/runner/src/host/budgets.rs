//! Budgets as people type them: `NAME=N`.

use contract::{Budgets, Usd, Workflow};

/// Budgets that do not apply to items: each sets itself how large its change may be, and there are no rounds.
const ONLY_OF_THE_LOOP: [&str; 4] = ["max_iterations", "max_patch_kb", "max_changed_files", "max_risky_files"];

/// The budgets that were, with those that are given in their place, or what is wrong with one.
pub(crate) fn raised(workflow: Workflow, mut budgets: Budgets, given: &[String]) -> Result<Budgets, String> {
    for text in given {
        let bad = || format!("{text:?} is not a budget");
        let (name, number) = text.split_once('=').ok_or_else(bad)?;
        if workflow != Workflow::Pdca && ONLY_OF_THE_LOOP.contains(&name) {
            return Err(format!(
                "{name} is a budget of the loop; contracts have max_tokens, max_cost_usd and max_minutes"
            ));
        }
        if name == "max_cost_usd" {
            budgets.max_cost_usd = Some(Usd::parse(number).filter(|amount| amount.0 > 0).ok_or_else(bad)?);
            continue;
        }
        if name == "max_tokens" {
            budgets.max_tokens = Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?);
            continue;
        }
        let number: u32 = number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?;
        match name {
            "max_iterations" => budgets.max_iterations = number,
            "max_patch_kb" => budgets.max_patch_kb = Some(number),
            "max_changed_files" => budgets.max_changed_files = Some(number),
            "max_risky_files" => budgets.max_risky_files = Some(number),
            "max_minutes" => budgets.max_minutes = Some(number),
            _ => return Err(bad()),
        }
    }
    Ok(budgets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workflow: Workflow, given: &[&str], expected: Result<(u32, Option<u64>), &str>) {
        let before = serde_json::from_str(r#"{"max_iterations": 5, "max_tokens": 7}"#).unwrap();
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        match (raised(workflow, before, &given), expected) {
            (Ok(found), Ok(expected)) => assert_eq!((found.max_iterations, found.max_tokens), expected),
            (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
            (found, _) => panic!("{given:?}: {found:?}"),
        }
    }

    #[test]
    fn what_is_given_takes_the_place_of_what_was() {
        check(Workflow::Batch, &["max_tokens=9", "max_minutes=1"], Ok((5, Some(9))));
        check(Workflow::Batch, &["max_cost_usd=0.50"], Ok((5, Some(7))));
        check(Workflow::Pdca, &["max_iterations=12"], Ok((12, Some(7))));
    }

    #[test]
    fn a_budget_that_cannot_apply_is_named() {
        for name in ONLY_OF_THE_LOOP {
            check(Workflow::Batch, &[&format!("{name}=3")], Err("is a budget of the loop"));
            check(Workflow::Pdca, &[&format!("{name}=0")], Err("is not a budget"));
        }
        for text in ["max_tokens", "max_tokens=", "max_tokens=0", "max_tokens=-1", "max_cost_usd=x", "tokens=1"] {
            check(Workflow::Batch, &[text], Err("is not a budget"));
        }
    }
}
