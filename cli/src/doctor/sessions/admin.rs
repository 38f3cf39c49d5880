//! Asks the admin server of a server, over HTTP, and reads its answers.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use zoolet_protocol::SessionId;

use super::{ClientLine, Ephemerals, WatchedPath};
use crate::doctor::limits::ANSWER_BYTES_MAX;

/// Why an admin server did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    #[error("the admin server at {0} cannot be reached: {1}")]
    Unreachable(String, #[source] std::io::Error),
    #[error("the admin server at {0} does not answer in time")]
    Silent(String),
    #[error("the admin server at {0} does not speak HTTP: {1}")]
    Http(String, #[source] hyper::Error),
    #[error("the admin server at {0} answers {1}")]
    Status(String, StatusCode),
    #[error("the answer of the admin server at {0} cannot be read")]
    Unreadable(String),
}

/// The answer to a command of the admin server that the host of a server has at this port.
pub(super) async fn ask(
    server: &str,
    port: u16,
    command: &str,
    limit: Duration,
) -> Result<Value, AdminError> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let address = format!("{host}:{port}");
    let asked = tokio::time::timeout(limit, exchange(&address, command)).await;
    asked.unwrap_or_else(|_| Err(AdminError::Silent(address)))
}

async fn exchange(address: &str, command: &str) -> Result<Value, AdminError> {
    let unreachable = |error| AdminError::Unreachable(address.to_owned(), error);
    let broken = |error| AdminError::Http(address.to_owned(), error);
    let unreadable = || AdminError::Unreadable(address.to_owned());
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::get(format!("/commands/{command}")).header(HOST, address);
    let request = request.body(Body::empty()).map_err(|_| unreadable())?;
    let read = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            return Err(AdminError::Status(address.to_owned(), response.status()));
        }
        let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await;
        let answer: Value =
            serde_json::from_slice(&body.map_err(|_| unreadable())?).map_err(|_| unreadable())?;
        // An error of the command has a text here.
        if answer.get("error").is_some_and(|error| !error.is_null()) {
            Err(unreadable())
        } else {
            Ok(answer)
        }
    };
    tokio::pin!(read);
    tokio::select! {
        answer = &mut read => answer,
        // The connection may end before the answer was taken from it.
        ended = connection => match ended {
            Ok(()) => read.await,
            Err(error) => Err(broken(error)),
        },
    }
}

/// The connections with a session in the answer to `connections`.
pub(super) fn connections(answer: &Value) -> Vec<ClientLine> {
    let lists = ["connections", "secure_connections"].into_iter();
    let lines = lists.filter_map(|name| answer.get(name)?.as_array()).flatten();
    lines.filter_map(connection).collect()
}

fn connection(line: &Value) -> Option<ClientLine> {
    let number = |name: &str| line.get(name).and_then(Value::as_i64);
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    // Apache's server has a slash before an address without a name.
    let address = text("remote_socket_address")?;
    Some(ClientLine {
        address: address.rsplit_once('/').map_or(address, |(_, address)| address).to_owned(),
        session: SessionId(number("session_id")?),
        timeout_ms: number("session_timeout")?,
        replied_ms: number("last_response_time").unwrap_or_default(),
        last: text("last_operation").unwrap_or_default().to_owned(),
    })
}

/// How many ephemerals each session has, in the answer to `dump`.
pub(super) fn ephemerals(answer: &Value) -> Vec<Ephemerals> {
    let sessions = object(answer, "session_id_to_ephemeral_paths");
    let count = |(session, paths): (&String, &Value)| {
        Some((SessionId(session.parse().ok()?), paths.as_array()?.len() as u64))
    };
    sessions.into_iter().flatten().filter_map(count).collect()
}

/// The paths with watches in the answer to `watches_by_path`, and the sessions that watch each.
pub(super) fn watches(answer: &Value) -> Vec<WatchedPath> {
    let paths = object(answer, "path_to_session_ids");
    let watched = |(path, sessions): (&String, &Value)| {
        let sessions = sessions.as_array()?.iter().filter_map(Value::as_i64).map(SessionId);
        Some((path.clone(), sessions.collect()))
    };
    paths.into_iter().flatten().filter_map(watched).collect()
}

/// The number of all watches in the answer to `watch_summary`.
pub(super) fn watches_total(answer: &Value) -> Option<u64> {
    answer.get("num_total_watches")?.as_u64()
}

fn object<'a>(answer: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    answer.get(name)?.as_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_as_apache_and_zoolet_write_them() {
        let answer = json!({
            "connections": [
                {"remote_socket_address": "127.0.0.1:4242", "session_id": -1, "session_timeout": 4000,
                 "last_response_time": 17, "last_operation": "PING"},
                {"remote_socket_address": "127.0.0.1:4243"},
            ],
            "secure_connections": [
                {"remote_socket_address": "/10.0.0.1:1", "session_id": 7, "session_timeout": 4000},
            ],
            "command": "connections", "error": null,
        });
        let told: Vec<_> =
            connections(&answer).into_iter().map(|line| (line.session.0, line.address)).collect();
        assert_eq!(told, [(-1, "127.0.0.1:4242".to_owned()), (7, "10.0.0.1:1".to_owned())]);
        let answer = json!({"session_id_to_ephemeral_paths": {"7": ["/a", "/b"], "x": []}});
        assert_eq!(ephemerals(&answer), [(SessionId(7), 2)]);
        let answer = json!({"path_to_session_ids": {"/a": [7, 8]}});
        assert_eq!(watches(&answer), [("/a".to_owned(), vec![SessionId(7), SessionId(8)])]);
        assert_eq!(watches_total(&json!({"num_total_watches": 12})), Some(12));
    }

    #[test]
    fn answers_of_something_else_have_nothing() {
        for answer in
            [json!(null), json!([1]), json!({"connections": 7, "path_to_session_ids": [1]})]
        {
            assert!(connections(&answer).is_empty() && watches(&answer).is_empty());
            assert!(ephemerals(&answer).is_empty() && watches_total(&answer).is_none());
        }
    }
}
