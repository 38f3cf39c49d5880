//! Golden scripts with several servers, recorded from three Apache servers (3.8.0): `TestEnsemble`
//! plays each of them, and some are recorded again and compared.
//!
//! `ZOOLET_ENSEMBLE_SCRIPTS` sets how many of them run on Apache ZooKeeper: a number, or `all`.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_conformance::apache::APACHE_VERSION;
use zoolet_conformance::ensemble_scripts::{ApacheStages, Area, drawn, play_on_double};
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::{Script, ensemble_corpus};

/// How many scripts run on Apache ZooKeeper by default: enough to notice that the harness is broken.
const SAMPLE: usize = 8;

const VARIABLE: &str = "ZOOLET_ENSEMBLE_SCRIPTS";

pub(crate) fn tests() -> Section {
    let mut section = Section::new("golden_ensemble", 1);
    let scripts = ensemble_corpus().expect("the scripts are part of this package");
    // One ensemble serves one script at a time.
    let stages = InTurn::new(ApacheStages::default());
    match sample(&scripts) {
        Ok(sample) => {
            sample.into_iter().for_each(|script| on_apache(&mut section, script, &stages))
        }
        Err(error) => section.test(&[], VARIABLE, move || Err(error.into())),
    }
    scripts.into_iter().for_each(|script| on_double(&mut section, script));
    section.test(&[], "the_drawn_scripts_are_those_of_their_seeds", drawn_from_seeds);
    section
}

fn on_double(section: &mut Section, script: Script) {
    section.test(&[], &format!("test_ensemble::{}", script.name), move || {
        let area = Area::of(&script);
        Ok(script.check_by(None, |text| play_on_double(area, text))?)
    });
}

fn on_apache(section: &mut Section, script: Script, stages: &Arc<InTurn<ApacheStages>>) {
    let name = format!("apache::{}", script.name);
    section.test_in_turn(stages, &[Peer::Apache], &name, move |stages| {
        let area = Area::of(&script);
        Ok(script.check_by(Some(APACHE_VERSION), |text| stages.play(area, text))?)
    });
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
