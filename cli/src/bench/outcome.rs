//! The results of a run, and their JSON.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::environment::{Machine, ZOOLET};
use super::server::BenchServer;
use super::values::{Label, Metric, Named, Part, Value, median};

/// The results of a run, and what is needed to read them.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) bench: &'static str,
    pub(crate) command: String,
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    pub(crate) servers: Vec<ServerFacts>,
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServerFacts {
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) version: Option<String>,
}

impl ServerFacts {
    pub(crate) fn of(server: &BenchServer) -> Self {
        let BenchServer { name, address, version, .. } = server;
        Self { name: name.clone(), address: address.clone(), version: version.clone() }
    }
}

/// The measurements of one point on one server.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Its index among the servers.
    pub(crate) server: usize,
    pub(crate) labels: Vec<Named>,
    /// The median over the rounds, for each metric.
    pub(crate) values: Vec<Value>,
    rounds: Vec<Vec<Value>>,
}

impl Outcome {
    /// The version of a server, with its name if another server has the same version; or its name.
    pub(crate) fn server_name(&self, server: usize) -> String {
        let ServerFacts { name, version, .. } = &self.servers[server];
        let Some(text) = version else { return name.clone() };
        let is_alone = self.servers.iter().filter(|other| other.version == *version).count() == 1;
        if is_alone { text.clone() } else { format!("{text} ({name})") }
    }
}

impl Row {
    /// Makes a row from several rounds.
    pub(crate) fn of_rounds(server: usize, parts: Vec<Part>) -> Self {
        let labels = parts.first().map(|part| part.labels.clone()).unwrap_or_default();
        let rounds: Vec<Vec<Value>> = parts.into_iter().map(|part| part.values).collect();
        let metrics = rounds.first().into_iter().flatten().map(|(metric, _)| *metric);
        let of_rounds = |metric: Metric| rounds.iter().map(move |values| value(values, metric));
        let values = metrics.map(|metric| (metric, median(of_rounds(metric)))).collect();
        Self { server, labels, values, rounds }
    }
}

impl Row {
    /// The value of a metric, if it is known.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        value(&self.values, metric)
    }

    /// The label of a name.
    pub(crate) fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|(key, _)| *key == name).map(|(_, label)| label)
    }
}

fn value(values: &[Value], metric: Metric) -> Option<f64> {
    values.iter().find(|(other, _)| *other == metric).and_then(|(_, value)| *value)
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("bench", self.bench)?;
        map.serialize_entry("by", ZOOLET)?;
        map.serialize_entry("command", &self.command)?;
        map.serialize_entry("date", &self.date)?;
        map.serialize_entry("machine", &self.machine)?;
        map.serialize_entry("rounds", &self.rounds)?;
        map.serialize_entry("servers", &self.servers)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("results", &Results(self))?;
        map.end()
    }
}

struct Results<'a>(&'a Outcome);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Outcome { rows, servers, .. } = self.0;
        let mut list = serializer.serialize_seq(Some(rows.len()))?;
        for row in rows {
            list.serialize_element(&Measured { row, server: &servers[row.server].name })?;
        }
        list.end()
    }
}

struct Measured<'a> {
    row: &'a Row,
    server: &'a str,
}

impl Serialize for Measured<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("server", self.server)?;
        for (name, label) in &self.row.labels {
            match label {
                Label::Text(text) => map.serialize_entry(name, text)?,
                Label::Number(number) => map.serialize_entry(name, number)?,
            }
        }
        for (metric, value) in &self.row.values {
            map.serialize_entry(metric.key, value)?;
        }
        let rounds: Vec<_> = self.row.rounds.iter().map(|values| Numbers(values)).collect();
        map.serialize_entry("rounds", &rounds)?;
        map.end()
    }
}

struct Numbers<'a>(&'a [Value]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(metric, value)| (metric.key, value)))
    }
}
