//! What a command answers: as text, and as one JSON value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use zoolet_protocol::{Acl, Stat};

/// The answer of a command. Each method that adds to the text says so; the others add to the JSON value
/// only.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    fields: Map<String, Value>,
    text: Vec<Text>,
}

/// A part of the text of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    /// One line. A line end within it, as in the name of a znode, is not one for a person.
    Line(String),
    /// With its own line ends.
    Whole(Vec<u8>),
}

impl Answer {
    /// The answer of this command, without a text.
    pub(super) fn of(command: &str) -> Self {
        Self::part().with("command", command)
    }

    /// An event that a watch has told of, without a text.
    pub(super) fn of_event(event: &str, path: &str) -> Self {
        Self::part().with("event", event).at(path)
    }

    /// A part of an answer.
    pub(super) fn part() -> Self {
        Self { fields: Map::new(), text: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// With the path that the command is about.
    pub(super) fn at(self, path: &str) -> Self {
        self.with("path", path)
    }

    /// With a line of text.
    pub(super) fn line(mut self, line: &str) -> Self {
        self.text.push(Text::Line(line.to_owned()));
        self
    }

    /// With a text that has its own line ends.
    pub(super) fn text(mut self, text: &[u8]) -> Self {
        self.text.push(Text::Whole(text.to_vec()));
        self
    }

    /// With data, as `data` if it is UTF-8, and otherwise as `data_base64`.
    pub(super) fn data(self, data: &[u8]) -> Self {
        match std::str::from_utf8(data) {
            Ok(text) => self.with("data", text),
            Err(_) => self.with("data_base64", STANDARD.encode(data)),
        }
    }

    /// With a Stat; in the text only if it is wanted there.
    pub(super) fn stat(self, its_stat: &Stat, is_in_text: bool) -> Self {
        let answer = self.with("stat", stat_value(its_stat));
        if is_in_text { answer.text(stat_text(its_stat).as_bytes()) } else { answer }
    }

    pub(super) fn as_text(&self) -> &[Text] {
        &self.text
    }

    pub(super) fn into_json(self) -> Value {
        Value::Object(self.fields)
    }
}

/// The entries of an access control list, each as it is parsed.
pub(crate) fn acl_value(acl: &[Acl]) -> Value {
    acl.iter().map(Acl::to_string).collect()
}

/// A Stat with all its fields.
pub(crate) fn stat_value(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctime": time(stat.ctime),
        "ctime_ms": stat.ctime,
        "mtime": time(stat.mtime),
        "mtime_ms": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": stat.ephemeral_owner.to_string(),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// A Stat, with the names of `zkCli.sh`.
pub(super) fn stat_text(stat: &Stat) -> String {
    format!(
        "cZxid = {}\nctime = {}\nmZxid = {}\nmtime = {}\npZxid = {}\ncversion = {}\n\
         dataVersion = {}\naclVersion = {}\nephemeralOwner = {}\ndataLength = {}\n\
         numChildren = {}\n",
        stat.czxid,
        time(stat.ctime),
        stat.mzxid,
        time(stat.mtime),
        stat.pzxid,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
}

/// A time in milliseconds since 1970, in UTC, as RFC 3339 writes it.
pub(crate) fn time(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => ms.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn data_that_is_no_text_is_marked_as_base64() {
        let json = |data: &[u8]| Answer::of("get").data(data).into_json();
        assert_eq!(json("Grüße".as_bytes()), json!({ "command": "get", "data": "Grüße" }));
        assert_eq!(json(b"\xff\0"), json!({ "command": "get", "data_base64": "/wA=" }));
    }
}
