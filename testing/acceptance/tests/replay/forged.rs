//! A record that fits together from end to end, written and signed by whoever holds the key, and says what does not
//! follow from its evidence. Verification finds nothing wrong with it; judging again does.

use crate::place::{Place, differences};
use contract::documents::ReexecStatus;
use contract::{Backend, End, Fact, Policies, ProcessEnd, Reason, Role, StepCommitted, StepRef, StepStatus, TurnEnd};
use runner::{Order, Settings, Starting};
use store::{Preparing, now};

#[test]
fn a_turn_that_is_recorded_as_answered_and_printed_nonsense_is_found() {
    let Some(place) = Place::new(Backend::None) else { return };
    let slug = place.own(|context, owner| {
        let config = serde_json::from_value(place.world.config.clone()).unwrap();
        let settings = Settings::new(config, &[], &context.layout.config(), Policies::built_in());
        let order =
            Order { goal: "g".into(), criteria: Vec::new(), task: None, parent: None, budgets: None, agent: None };
        let (store, objects, path) = (owner.store(), owner.objects(), place.world.path());
        let (user, trust, settings, path_var) = (&context.user, &context.trust, &settings, path.as_os_str());
        let (run, mut log) = Starting {
            store,
            user,
            objects,
            trust,
            settings,
            path_var,
            user_env: &Default::default(),
            attended: false,
            shows_dependencies: false,
        }
        .start(order)
        .unwrap();
        let slug = run.id.slug();
        let step = StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None };
        store.append(&mut log, vec![Fact::StepStarted { step, base: None, taken: None }], Vec::new()).unwrap();
        let dir = format!("steps/{}", step.dir_name());
        let mut evidence = Preparing::new(&store.layout.run(&slug).join(&dir));
        evidence.write("logs/stdout.txt", b"nonsense").unwrap();
        evidence.write("output.json", b"{}\n").unwrap();
        let done = Fact::StepCommitted(StepCommitted {
            step,
            status: StepStatus::Ok,
            end: TurnEnd::Answered,
            reason: None,
            summary: "planned".into(),
            dir: dir.clone(),
            started_at: now(),
            process: ProcessEnd::Exited(0),
            patch: false,
            notes: Vec::new(),
            evidence: evidence.evidence(),
            tree: None,
            until: None,
            usage: None,
            delta: None,
        });
        let points = ["step.before_rename", "step.after_rename"];
        let sealed = evidence.finish(&slug, &dir, now(), vec![done], store::Writing::AtOnce, points).unwrap();
        store.append(&mut log, sealed.facts, sealed.files).unwrap();
        let end = End { reason: Some(Reason::Canceled), message: "enough".into() };
        store.append(&mut log, vec![Fact::RunCanceled(end)], Vec::new()).unwrap();
        store::seal(store, &slug, &|said| owner.keys().sign(said)).unwrap();
        assert!(runner::verify_run(&place.reader(), &context.trust, &slug).unwrap().verified);
        slug
    });
    let report = place.rehydrate(&slug);
    assert_eq!(report.status, ReexecStatus::Fail);
    let found = differences(&report);
    let expected = [
        "turns: event 3: gate output: steps/001-plan: end is \"answered\" on record and \"protocol_error\" now",
        "turns: event 3: gate output: steps/001-plan: status is \"ok\" on record and \"fail\" now",
        "turns: event 3: gate output: steps/001-plan/output.json is not what follows from what was printed",
    ];
    for expected in expected {
        assert!(found.iter().any(|line| line == expected), "{expected}: {found:#?}");
    }
}
