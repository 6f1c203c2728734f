//! `tensorplay plan`, and `replay --plan`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{LARGE, complaint, run, stdout, trace};

/// Plans a trace, and what serving the plan reports.
fn planned(folder: &Path, name: &str, args: &[&str]) -> Value {
    let plan = folder.join(format!("{name}.plan"));
    let (file, plan) = (trace(name), plan.to_str().unwrap());
    let mut all = vec!["plan", file.to_str().unwrap(), "-o", plan];
    all.extend(args);
    let output = run(&all);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = stdout(&output);
    assert!(page.contains("lower bound") && page.contains("above the bound"), "{page}");
    let output = run(&["replay", file.to_str().unwrap(), "--plan", plan, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    report["devices"][0]["replay"]["plan"].clone()
}

fn waste(plan: &Value) -> f64 {
    plan["waste"].as_f64().unwrap()
}

#[test]
fn little_is_wasted_by_plans_of_large_histories() {
    let folder = tempfile::tempdir().unwrap();
    let (mut table, mut sum) = (String::new(), 0.0);
    for name in LARGE {
        let begun = Instant::now();
        let plan = planned(folder.path(), name, &["--steps", "60000000", "--time-limit", "600"]);
        assert!(begun.elapsed() < Duration::from_secs(60), "{name}: {:?}", begun.elapsed());
        assert_eq!((&plan["elsewhere"], &plan["outside"]), (&0.into(), &0.into()), "{name}");
        assert_eq!(plan["is_of_this_history"], true);
        let waste = 100.0 * waste(&plan);
        assert!(waste <= 1.5, "{name}: {plan}");
        table += &format!("{name:<34}{waste:>6.2} %\n");
        sum += waste;
    }
    let average = sum / LARGE.len() as f64;
    assert!(average <= 0.4, "{average:.2} % on average");
    table += &format!("{:<34}{average:>6.2} %\n", "on average");
    insta::assert_snapshot!(table, @"
    opt-zeroth-order-finetune           0.06 %
    transformer-train-fp32              0.26 %
    transformer-train-mixed             0.65 %
    transformer-2.7b-forward            0.00 %
    transformer-train-compiled-warm     0.62 %
    transformer-xl-expandable-warm      0.00 %
    transformer-xl-train-warm           0.02 %
    transformer-xl-fullstep-bf16-warm   0.17 %
    on average                          0.22 %
    ");
}

#[test]
fn small_traces_are_planned_as_well_as_can_be() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cross-entropy-eager", "cross-entropy-compiled"] {
        let plan = planned(folder.path(), name, &[]);
        assert_eq!(plan["peak_reserved_bytes"], 501 * (2 << 20), "{name}: 1000.01 MiB are live");
        assert_eq!(plan["planned"], 8);
    }
}

#[test]
fn the_rest_of_a_history_is_served_by_a_plan_of_its_first_part() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(folder.path(), "transformer-xl-expandable-warm", &["--first", "50"]);
    assert_eq!(plan["is_of_this_history"], false);
    assert!(plan["planned"].as_u64().unwrap() > 1000, "{plan}");
    assert!(waste(&plan) < 0.03, "{plan}");
}

#[test]
fn a_plan_of_another_history_still_serves() {
    let folder = tempfile::tempdir().unwrap();
    planned(folder.path(), "cross-entropy-eager", &[]);
    let plan = folder.path().join("cross-entropy-eager.plan");
    let file = trace("transformer-train-fp32");
    let output = run(&["replay", file.to_str().unwrap(), "--plan", plan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let page = stdout(&output);
    assert!(page.contains("made from        other requests, 1000.01 MiB high"), "{page}");
}

#[test]
fn what_is_no_use_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = trace("cross-entropy-eager");
    let file = file.to_str().unwrap();
    let plan = folder.path().join("a.plan");
    let plan = plan.to_str().unwrap();
    let nowhere = folder.path().join("none/a.plan");
    let error = complaint(&run(&["plan", file, "-o", nowhere.to_str().unwrap()]));
    assert!(error.contains("--output: "), "{error}");
    let error = complaint(&run(&["plan", file, "-o", plan, "--device", "3"]));
    assert!(error.contains("--device: ") && error.contains("nothing about device 3"), "{error}");
    let error = complaint(&run(&["replay", file, "--plan", plan]));
    assert!(error.contains("--plan: ") && error.contains("a.plan"), "{error}");
    std::fs::write(plan, "tensorplay-plan 1\nsource 12\n").unwrap();
    let error = complaint(&run(&["replay", file, "--plan", plan]));
    assert!(error.contains("line 2 should be"), "{error}");
}
