//! Asks a server in this process, by the reports of its admin server.

use serde_json::Value;
use zoolet_server::admin::{ReportError, Reports};

use super::{Gap, Question, Sessions, admin};
use crate::doctor::limits::WATCHES_ASKED_MAX;

/// What a server in this process tells. `name` is what it is called.
pub(crate) async fn ask(reports: &Reports, name: &str) -> Sessions {
    let mut told = Sessions { has_connections: true, ..Sessions::default() };
    match report(reports, Question::Connections).await {
        Ok(answer) => told.add_connections(name, admin::connections(&answer)),
        Err(cause) => {
            told.has_connections = false;
            Gap::add(&mut told.gaps, name, Question::Connections, cause, None);
        }
    }
    match report(reports, Question::Ephemerals).await {
        Ok(answer) => {
            told.has_ephemerals = true;
            told.add_ephemerals(admin::ephemerals(&answer));
        }
        Err(cause) => Gap::add(&mut told.gaps, name, Question::Ephemerals, cause, None),
    }
    match watches(reports).await {
        Ok(answer) => {
            told.has_watches = true;
            told.tell_watches.insert(name.to_owned());
            told.add_watches(admin::watches(&answer), "");
        }
        Err(cause) => Gap::add(&mut told.gaps, name, Question::Watches, cause, None),
    }
    told.count_watches();
    told
}

async fn watches(reports: &Reports) -> Result<Value, String> {
    let summary = report(reports, Question::WatchesTotal).await?;
    match admin::watches_total(&summary) {
        Some(total) if total <= WATCHES_ASKED_MAX => report(reports, Question::Watches).await,
        total => {
            let total = total.unwrap_or_default();
            Err(format!("it has {total} watches, and a list of them costs it much"))
        }
    }
}

async fn report(reports: &Reports, question: Question) -> Result<Value, String> {
    let command = question.command().expect("every question but that for the mode has one");
    let text = reports.make(command).await.map_err(|error: ReportError| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
