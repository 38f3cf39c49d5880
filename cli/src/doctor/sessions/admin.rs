//! Asks the admin server of a server, over HTTP, and reads its answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use clap::Args;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zoolet_client::tls::ClientTls;
use zoolet_protocol::SessionId;

use super::{ClientLine, Ephemerals, WatchedPath};
use crate::connect_options::{TlsFailure, TlsOptions};
use crate::doctor::limits::ANSWER_BYTES_MAX;

/// Why an admin server did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    #[error("the admin server at {0} cannot be reached: {1}")]
    Unreachable(String, #[source] io::Error),
    #[error("the admin server at {0} does not answer in time")]
    Silent(String),
    #[error("the admin server at {0} does not speak HTTP (--admin-https asks by HTTPS): {1}")]
    Http(String, #[source] hyper::Error),
    #[error("the admin server at {0} answers {1}")]
    Status(String, StatusCode),
    #[error("the answer of the admin server at {0} cannot be read")]
    Unreadable(String),
    #[error("the admin server at {0} cannot be asked by HTTPS: {1}")]
    Https(String, #[source] io::Error),
}

/// The options by which a command asks admin servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct AdminOptions {
    /// The port of the servers' admin servers (8080 by default there), to ask them by HTTP what their
    /// four-letter words refuse
    #[arg(long, value_name = "PORT")]
    admin_port: Option<u16>,

    /// Ask the admin servers by HTTPS, with the certificates that the options of TLS name; without these,
    /// those that this system trusts
    #[arg(long, requires = "admin_port")]
    admin_https: bool,
}

impl AdminOptions {
    /// The admin servers, if they may be asked. `tls` is what the options say of TLS.
    ///
    /// # Errors
    ///
    /// [`TlsFailure`] if a file cannot be used.
    pub(crate) fn servers(&self, tls: &TlsOptions) -> Result<Option<AdminServers>, TlsFailure> {
        let Some(port) = self.admin_port else { return Ok(None) };
        let tls = self.admin_https.then(|| tls.stores().map(Arc::new)).transpose()?;
        Ok(Some(AdminServers { port, tls }))
    }
}

/// Where the admin servers are, beside the servers.
#[derive(Debug, Clone)]
pub(crate) struct AdminServers {
    port: u16,
    /// For HTTPS.
    tls: Option<Arc<ClientTls>>,
}

impl AdminServers {
    /// The answer to a command of the admin server on the host of this server.
    pub(super) async fn ask(
        &self,
        server: &str,
        command: &str,
        limit: Duration,
    ) -> Result<Value, AdminError> {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let address = format!("{host}:{}", self.port);
        let asked = tokio::time::timeout(limit, self.exchange(host, &address, command)).await;
        asked.unwrap_or_else(|_| Err(AdminError::Silent(address)))
    }

    async fn exchange(
        &self,
        host: &str,
        address: &str,
        command: &str,
    ) -> Result<Value, AdminError> {
        let unreachable = |error| AdminError::Unreachable(address.to_owned(), error);
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let Some(tls) = &self.tls else { return exchange(stream, address, command).await };
        let insecure = |error| AdminError::Https(address.to_owned(), error);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = tls.server_name(host).map_err(io::Error::other).map_err(insecure)?;
        let connected = TlsConnector::from(tls.config()).connect(name, stream).await;
        exchange(connected.map_err(insecure)?, address, command).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    address: &str,
    command: &str,
) -> Result<Value, AdminError> {
    let broken = |error| AdminError::Http(address.to_owned(), error);
    let unreadable = || AdminError::Unreadable(address.to_owned());
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
