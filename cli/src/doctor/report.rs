//! The report, as text, as JSON and as a page.

mod json;
mod page;
mod text;

use zoolet_layouts::Queue;

use super::finding::{Finding, Severity};
use super::sessions::Sessions;
use super::survey::Survey;
use crate::counted::counted;

/// What one look has found.
#[derive(Debug)]
pub(super) struct Report {
    /// The connection string.
    pub(super) server: String,
    /// The znode below which it looked.
    pub(super) path: String,
    pub(super) survey: Survey,
    pub(super) sessions: Sessions,
    /// The worst first.
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// The severity of the worst finding.
    pub(super) fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// For a person. Quiet: without the locks.
    pub(super) fn text(&self, is_quiet: bool) -> String {
        text::text(self, is_quiet)
    }

    /// For a program.
    pub(super) fn json(&self) -> serde_json::Value {
        json::json(self)
    }

    /// For a browser.
    pub(super) fn page(&self) -> String {
        page::page(self)
    }

    /// The queues with most waiters first.
    fn queues_by_waiters(&self) -> Vec<(&str, Queue<'_>)> {
        let mut queues = self.survey.queues();
        queues.sort_by_key(|(_, queue)| std::cmp::Reverse(waiting(queue)));
        queues
    }

    /// What was looked at, in a sentence.
    fn summary(&self) -> String {
        let queues = self.survey.queues();
        let count = |holds: bool| {
            let rows = queues.iter().flat_map(|(_, queue)| &queue.rows);
            rows.filter(|row| if holds { row.role.holds() } else { row.role.waits() }).count()
        };
        let Survey { znodes, requests, .. } = self.survey;
        let left_out = self.survey.left_out_text();
        let cut = left_out
            .map(|text| format!("; there are more, which --max-znodes leaves out: {text}"))
            .unwrap_or_default();
        let (hold, wait) = (count(true), count(false));
        format!(
            "{} {}: {} in {}, {}; {hold} hold, {wait} wait{cut}",
            self.server,
            self.path,
            counted(znodes, "znode"),
            counted(requests, "request"),
            counted(queues.len() as u64, "lock"),
        )
    }
}

fn waiting(queue: &Queue<'_>) -> usize {
    queue.rows.iter().filter(|row| row.role.waits()).count()
}
