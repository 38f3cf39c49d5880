//! Golden scripts with several servers, recorded from three Apache servers (3.8.0): `TestEnsemble`
//! plays each of them, and some are recorded again and compared.
//!
//! `ZOOLET_ENSEMBLE_SCRIPTS` sets how many of them run on Apache ZooKeeper: a number, or `all`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use zoolet_conformance::apache::APACHE_VERSION;
use zoolet_conformance::ensemble_scripts::{ApacheStages, Area, drawn, play_on_double};
use zoolet_conformance::harness;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::{Script, ensemble_corpus};

/// How many scripts run on Apache ZooKeeper by default: enough to notice that the harness is broken.
const SAMPLE: usize = 8;

const VARIABLE: &str = "ZOOLET_ENSEMBLE_SCRIPTS";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let scripts = ensemble_corpus().expect("the scripts are part of this crate");
    // One ensemble serves one script at a time.
    let stages = Arc::new(Mutex::new(ApacheStages::default()));
    let mut trials: Vec<_> = scripts.iter().cloned().map(on_double).collect();
    trials.push(Trial::test("the_drawn_scripts_are_those_of_their_seeds", drawn_from_seeds));
    match sample(&scripts) {
        Ok(sample) => trials.extend(sample.into_iter().map(|script| on_apache(script, &stages))),
        Err(error) => trials.push(Trial::test(VARIABLE, move || Err(error.into()))),
    }
    if arguments.test_threads.is_none() {
        arguments.test_threads = std::thread::available_parallelism().map(Into::into).ok();
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Stop the servers before the process ends.
    drop(stages);
    conclusion.exit_code()
}

fn on_double(script: Script) -> Trial {
    Trial::test(format!("test_ensemble::{}", script.name), move || {
        let area = Area::of(&script);
        Ok(script.check_by(None, |text| play_on_double(area, text))?)
    })
}

fn on_apache(script: Script, stages: &Arc<Mutex<ApacheStages>>) -> Trial {
    let stages = Arc::clone(stages);
    harness::needs(&[Peer::Apache], &format!("apache::{}", script.name.clone()), move || {
        let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
        let area = Area::of(&script);
        Ok(script.check_by(Some(APACHE_VERSION), |text| stages.play(area, text))?)
    })
}

/// The scripts that run on Apache ZooKeeper: as far as possible some of each folder with three
/// servers, unless all were asked for.
fn sample(scripts: &[Script]) -> Result<Vec<Script>, String> {
    let count = match std::env::var(VARIABLE) {
        Err(_) => SAMPLE,
        Ok(text) if text == "all" => return Ok(scripts.to_vec()),
        Ok(text) => text.parse().map_err(|_| format!("{VARIABLE}={text}: a number, or all"))?,
    };
    let mut folders = BTreeMap::<_, Vec<_>>::new();
    let three = scripts.iter().filter(|script| Area::of(script) == Area::Three);
    three.for_each(|script| folders.entry(script.area()).or_default().push(script));
    let longest = folders.values().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| folders.values().filter_map(move |it| it.get(turn)));
    Ok(turns.copied().take(count).cloned().collect())
}

/// A drawn script that was edited, or one whose seed draws another script now, would not be drawn
/// again in the same way.
fn drawn_from_seeds() -> Result<(), Failed> {
    let scripts = ensemble_corpus()?;
    for (name, text) in drawn() {
        let script = scripts.iter().find(|script| script.name == name);
        let script = script.ok_or_else(|| format!("{name} is missing; draw and record it"))?;
        if script.commands()? != text {
            return Err(format!("{name} is not what its seed draws; draw and record it").into());
        }
    }
    Ok(())
}
