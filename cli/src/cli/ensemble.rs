//! `config` and `reconfig`: the members of an ensemble.

use std::fs;
use std::io;

use serde_json::{Value, json};
use zoolet_client::{Client, Watched, Watcher};
use zoolet_protocol::Reconfig;

use super::answer::Answer;
use super::arguments::Members;
use super::failure::Failure;

/// The path of the configuration, which a watch names in its event.
pub(super) const CONFIG: &str = "/zookeeper/config";

/// What `config` prints.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigForm {
    /// Only what clients need.
    pub(super) is_for_clients: bool,
    pub(super) has_stat: bool,
}

/// The configuration, and a watch on it if one is asked for.
pub(super) async fn config(
    client: &Client,
    form: ConfigForm,
    is_watched: bool,
) -> Result<(Answer, Option<Watcher>), Failure> {
    let ((data, stat), watcher) = if is_watched {
        let Watched { found, watcher } = client.config().and_watch().await?;
        (found, Some(watcher))
    } else {
        (client.config().await?, None)
    };
    let text = String::from_utf8_lossy(&data);
    let config = Config::read(&text);
    let answer = Answer::of("config").with("config", &*text).with("version", config.version);
    let servers: Vec<Value> = config.servers.iter().map(Server::json).collect();
    let answer = answer.with("servers", servers);
    let answer = match form.is_for_clients {
        true => answer.line(&config.for_clients()),
        false => answer.line(&text),
    };
    Ok((answer.stat(&stat, form.has_stat), watcher))
}

/// Asks for a change of the members, if the configuration has this version.
pub(super) async fn reconfigure(
    client: &Client,
    members: Members,
    version: Option<i64>,
    has_stat: bool,
) -> Result<Answer, Failure> {
    let Members { add, remove, members, file } = members;
    let lower = |text: Option<String>| text.map(|text| text.to_lowercase().into());
    let from_file = file.map(|file| {
        let read = members_of_file(&file.to_string_lossy());
        read.map_err(|error| Failure::File { file: file.display().to_string(), error })
    });
    let change = Reconfig {
        joining: lower(add),
        leaving: lower(remove),
        new_members: lower(members.or(from_file.transpose()?)),
        current_config: version.unwrap_or(-1),
    };
    let (data, stat) = client.reconfigure(change).await?;
    let text = String::from_utf8_lossy(&data);
    let answer = Answer::of("reconfig").with("config", &*text);
    let answer = answer.line("Committed new configuration:").line(&text);
    Ok(answer.stat(&stat, has_stat))
}

/// The lines of a configuration file that describe members.
fn members_of_file(file: &str) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    let is_about_members = |line: &&str| {
        ["server.", "group.", "weight."].iter().any(|key| line.trim_start().starts_with(key))
    };
    Ok(text.lines().filter(is_about_members).collect::<Vec<_>>().join(","))
}

/// A configuration: `server.N=..` a line, and `version=` in hexadecimal.
struct Config<'a> {
    version: Option<&'a str>,
    servers: Vec<Server<'a>>,
}

struct Server<'a> {
    id: &'a str,
    address: &'a str,
    /// Where clients connect.
    client: Option<String>,
}

impl<'a> Config<'a> {
    fn read(text: &'a str) -> Self {
        let mut config = Self { version: None, servers: Vec::new() };
        for line in text.lines() {
            match line.split_once('=') {
                Some(("version", version)) => config.version = Some(version.trim()),
                Some((key, value)) => config.servers.extend(Server::read(key, value)),
                None => {}
            }
        }
        config
    }

    /// The version and the addresses for clients, as `zkCli.sh config -c` prints them.
    fn for_clients(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().filter_map(|it| it.client.as_deref()).collect();
        format!("{} {}", self.version.unwrap_or_default(), addresses.join(","))
    }
}

impl<'a> Server<'a> {
    /// `host:port:port[:role][;[host:]port]`, and several addresses with `|` between.
    fn read(key: &'a str, value: &'a str) -> Option<Self> {
        let id = key.trim().strip_prefix("server.")?;
        let (address, client) = match value.trim().split_once(';') {
            Some((address, client)) if client.contains(':') => (address, Some(client.to_owned())),
            Some((address, port)) => (address, Some(format!("0.0.0.0:{port}"))),
            None => (value.trim(), None),
        };
        Some(Self { id, address, client })
    }

    fn json(&self) -> Value {
        json!({ "id": self.id, "address": self.address, "client_address": self.client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_where_to_connect() {
        let text = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=zk2:2888:3888:observer;2182\nserver.3=zk3:2888:3888\n\
                    version=100000000";
        let config = Config::read(text);
        assert_eq!(config.for_clients(), "100000000 0.0.0.0:2181,0.0.0.0:2182");
        assert_eq!(
            config.servers[1].json(),
            json!({ "id": "2", "address": "zk2:2888:3888:observer",
                "client_address": "0.0.0.0:2182" })
        );
        assert_eq!(Config::read("").for_clients(), " ");
    }
}
