//! The requests of tests, as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zoolet_core::ConnectionId;
use zoolet_protocol::{ErrorCode, OpCode, SessionId};
use zoolet_testkit::{Aim, Fault, FaultError, RequestFilter, Scope};

/// Whom a fault concerns: every connection of every server, if none is given.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    #[serde(default, skip_serializing_if = "Option::is_none", with = "session")]
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connection: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<u64>,
}

/// A fault to set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultRequest {
    fault: FaultKind,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "session")]
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connection: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests: Option<Selection>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "error_code")]
    error: Option<ErrorCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FaultKind {
    Freeze,
    Refuse,
    Hold,
    Delay,
    DropRequests,
    DropReplies,
    CutBeforeReply,
    Fail,
    Corrupt,
}

/// Which requests a fault concerns: all from now on, if no field is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<RequestKind>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "operations")]
    operations: Option<Vec<OpCode>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestKind {
    Creates,
    Deletes,
    Writes,
    Reads,
}

/// What is missing in a request, or contradicts the rest of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRequest {
    #[error("give a session, a connection or a server, not both of two")]
    TwoTargets,
    #[error("give one of by_ms, by_transactions, and hold, which is true; DELETE ends the lag")]
    NotOneLag,
    #[error("server {0} is in two groups")]
    InTwoGroups(usize),
    #[error("give kind or operations, not both")]
    TwoKinds,
    #[error("give at or below, not both")]
    TwoPlaces,
    #[error("{0:?} is not for this fault; it is for {1}")]
    Inapplicable(&'static str, &'static str),
    #[error("this fault needs {0:?}, {1}")]
    Missing(&'static str, &'static str),
}

impl Target {
    /// The scope of faults for this target on a server; `None` for all its connections.
    pub(super) fn scope(self) -> Result<Option<Scope>, BadRequest> {
        match (self.session, self.connection, self.server) {
            (None, None, _) => Ok(None),
            (Some(session), None, None) => Ok(Some(Scope::Session(session))),
            (None, Some(connection), None) => Ok(Some(Scope::Connection(ConnectionId(connection)))),
            _ => Err(BadRequest::TwoTargets),
        }
    }
}

impl FaultRequest {
    /// Checks what the types do not: which fields a fault needs, and which exclude each other.
    pub(super) fn check(&self) -> Result<(), BadRequest> {
        let is_about_requests = !matches!(
            self.fault,
            FaultKind::Freeze | FaultKind::Refuse | FaultKind::Hold | FaultKind::Delay
        ) && self.fault != FaultKind::Corrupt;
        let forbidden = [
            (self.requests.is_some() && !is_about_requests, "requests", "faults of requests"),
            (self.error.is_some() && self.fault != FaultKind::Fail, "error", "fail"),
            (self.delay_ms.is_some() && self.fault != FaultKind::Delay, "delay_ms", "delay"),
            (self.frames.is_some() && self.fault != FaultKind::Corrupt, "frames", "corrupt"),
        ];
        if let Some((_, field, of)) = forbidden.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            return Err(BadRequest::Inapplicable(field, of));
        }
        self.target().scope()?;
        match self.fault {
            FaultKind::Fail if self.error.is_none() => {
                return Err(BadRequest::Missing("error", "a name as \"NoNode\", or its code"));
            }
            FaultKind::Delay if self.delay_ms.is_none() => {
                return Err(BadRequest::Missing("delay_ms", "in milliseconds"));
            }
            _ => {}
        }
        self.requests.as_ref().map_or(Ok(()), Selection::check)
    }

    /// Whom it concerns.
    pub(super) fn target(&self) -> Target {
        Target { session: self.session, connection: self.connection, server: self.server }
    }

    /// Sets the fault on a server.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if the session or the connection is not there.
    pub(super) fn set(&self, aim: &Aim) -> Result<Fault, FaultError> {
        let requests = || self.requests.clone().unwrap_or_default().into_filter();
        match self.fault {
            FaultKind::Freeze => aim.freeze(),
            FaultKind::Refuse => aim.refuse(),
            FaultKind::Hold => aim.hold(),
            FaultKind::Delay => aim.delay(Duration::from_millis(self.delay_ms.unwrap_or_default())),
            FaultKind::DropRequests => aim.drop_requests(requests()),
            FaultKind::DropReplies => aim.drop_replies(requests()),
            FaultKind::CutBeforeReply => aim.cut_before_reply(requests()),
            FaultKind::Fail => {
                aim.fail(requests(), self.error.unwrap_or(ErrorCode::CONNECTION_LOSS))
            }
            FaultKind::Corrupt => aim.corrupt(self.frames.unwrap_or(1)),
        }
    }
}

impl Selection {
    fn check(&self) -> Result<(), BadRequest> {
        if self.kind.is_some() && self.operations.is_some() {
            return Err(BadRequest::TwoKinds);
        }
        if self.at.is_some() && self.below.is_some() {
            return Err(BadRequest::TwoPlaces);
        }
        Ok(())
    }

    fn into_filter(self) -> RequestFilter {
        let mut requests = self.next.map_or_else(RequestFilter::all, RequestFilter::next);
        if let Some(after) = self.after {
            requests = requests.after(after);
        }
        requests = match self.kind {
            Some(RequestKind::Creates) => requests.creates(),
            Some(RequestKind::Deletes) => requests.deletes(),
            Some(RequestKind::Writes) => requests.writes(),
            Some(RequestKind::Reads) => requests.reads(),
            None => requests,
        };
        if let Some(operations) = self.operations {
            requests = requests.of(&operations);
        }
        if let Some(path) = self.at {
            requests = requests.at(path);
        }
        match self.below {
            Some(path) => requests.below(path),
            None => requests,
        }
    }
}

/// A session id: in hexadecimal, as ZooKeeper's tools print it, or as a number, as in Java and Python.
pub(super) mod session {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use zoolet_protocol::SessionId;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(i64),
        Text(String),
    }

    pub(in super::super) fn serialize<S: Serializer>(
        session: &Option<SessionId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match session {
            Some(session) => serializer.collect_str(session),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SessionId>, D::Error> {
        let number = match Option::<Given>::deserialize(deserializer)? {
            None => return Ok(None),
            Some(Given::Number(number)) => number,
            Some(Given::Text(text)) => {
                let digits = text.strip_prefix("0x").unwrap_or(&text);
                let number = u64::from_str_radix(digits, 16).map_err(|_| {
                    de::Error::custom(format!("{text:?} is no session id; one looks like \"0x10\""))
                })?;
                number.cast_signed()
            }
        };
        Ok(Some(SessionId(number)))
    }
}

/// An error code, as its name or its number.
mod error_code {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use zoolet_protocol::ErrorCode;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Code(i32),
        Name(String),
    }

    pub(super) fn serialize<S: Serializer>(
        code: &Option<ErrorCode>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match code {
            Some(code) => serializer.collect_str(code),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ErrorCode>, D::Error> {
        Ok(match Option::<Given>::deserialize(deserializer)? {
            None => None,
            Some(Given::Code(code)) => Some(ErrorCode(code)),
            Some(Given::Name(name)) => Some(ErrorCode::from_name(&name).ok_or_else(|| {
                let message = format!(
                    "no error is called {name:?}; names are those of KeeperException.Code, as \
                     \"ConnectionLoss\", \"NoNode\", \"SessionExpired\""
                );
                de::Error::custom(message)
            })?),
        })
    }
}

/// Operations by their names.
mod operations {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use zoolet_protocol::OpCode;

    pub(super) fn serialize<S: Serializer>(
        operations: &Option<Vec<OpCode>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match operations {
            Some(operations) => serializer.collect_seq(operations.iter().map(OpCode::to_string)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<OpCode>>, D::Error> {
        let Some(names) = Option::<Vec<String>>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let operation = |name: &String| {
            OpCode::from_name(name).ok_or_else(|| {
                let message = format!(
                    "no operation is called {name:?}; names are those of ZooDefs.OpCode, as \
                     \"create2\", \"getData\", \"multi\""
                );
                de::Error::custom(message)
            })
        };
        names.iter().map(operation).collect::<Result<_, _>>().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        match serde_json::from_str::<FaultRequest>(json) {
            Ok(request) => request.check().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn nonsense_is_named() {
        let cases = [
            (r#"{"fault": "freze"}"#, "unknown variant `freze`, expected one of `freeze`"),
            (r#"{"fault": "fail", "eror": 1}"#, "unknown field `eror`, expected one of `fault`"),
            (r#"{"fault": "fail"}"#, "this fault needs \"error\""),
            (r#"{"fault": "fail", "error": "NoNod"}"#, "no error is called \"NoNod\""),
            (r#"{"fault": "delay"}"#, "needs \"delay_ms\", in milliseconds"),
            (r#"{"fault": "hold", "delay_ms": 1}"#, "\"delay_ms\" is not for this fault"),
            (r#"{"fault": "hold", "requests": {}}"#, "\"requests\" is not for this fault"),
            (r#"{"fault": "hold", "session": "x"}"#, "\"x\" is no session id"),
            (r#"{"fault": "hold", "session": 1, "connection": 1}"#, "not both of two"),
            (r#"{"fault": "hold", "session": 1, "server": 1}"#, "not both of two"),
            (
                r#"{"fault": "drop_requests", "requests": {"operations": ["craete"]}}"#,
                "no operation is called \"craete\"",
            ),
            (
                r#"{"fault": "drop_requests", "requests": {"at": "/a", "below": "/a"}}"#,
                "give at or below, not both",
            ),
        ];
        for (json, expected) in cases {
            let refusal = refusal(json);
            assert!(refusal.contains(expected), "{json}: {refusal}");
        }
    }

    #[test]
    fn a_request_is_shown_as_it_was_given() {
        let json = r#"{"fault":"fail","session":"0x7","requests":{"next":1,"kind":"creates","below":"/locks"},"error":"NoAuth"}"#;
        let request: FaultRequest = serde_json::from_str(json).unwrap();
        assert_eq!(request.check(), Ok(()));
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
    }

    #[test]
    fn a_session_may_be_a_number_too() {
        let target: Target = serde_json::from_str(r#"{"session": -1}"#).unwrap();
        assert_eq!(target.session, Some(SessionId(-1)));
        let target: Target = serde_json::from_str(r#"{"session": "0xffffffffffffffff"}"#).unwrap();
        assert_eq!(target.session, Some(SessionId(-1)));
    }
}
