//! Runs the commands of the shell.

use bytes::Bytes;
use serde_json::json;
use zoolet_client::{Client, Hosts};
use zoolet_protocol::WatchMode;

use super::acl::AclList;
use super::answer::Answer;
use super::arguments::{NewQuota, RemovedWatches, Switch};
use super::commands::Command;
use super::connection::Connection;
use super::ensemble::{self, ConfigForm};
use super::failure::Failure;
use super::history::History;
use super::output::Output;
use super::watches::{self, WatchKind, Watches};
use super::word::Word;
use super::{four_letter, line, locks, multi, quota, tree, znodes};

/// A session, where it prints, and the watches that it waits for.
pub(super) struct Shell {
    pub(super) connection: Connection,
    pub(super) output: Output,
    pub(super) watches: Watches,
    prints_watches: bool,
    history: History,
}

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Quit,
}

impl Shell {
    pub(super) fn new(connection: Connection, output: Output) -> Self {
        let (watches, history) = (Watches::default(), History::default());
        Self { connection, output, watches, prints_watches: true, history }
    }

    /// Runs the command of a line.
    pub(super) async fn execute_line(&mut self, line: &str) -> Result<Flow, Failure> {
        let words = line::words(line)?;
        if words.is_empty() {
            return Ok(Flow::Continue);
        }
        self.history.add(line);
        match Command::parse(&words)? {
            Command::Redo { number } => self.redo(number).await,
            command => self.execute(command).await,
        }
    }

    async fn redo(&mut self, number: i64) -> Result<Flow, Failure> {
        let Some(line) = self.history.line(number).map(str::to_owned) else {
            return Err(out_of_range());
        };
        let command = Command::parse(&line::words(&line)?)?;
        if let Command::Redo { .. } = command {
            return Err(Failure::Usage("No redoing redos; name the command itself".to_owned()));
        }
        self.history.replace_last(&line);
        self.execute(command).await
    }

    /// Runs a command, and prints its answer.
    pub(super) async fn execute(&mut self, command: Command) -> Result<Flow, Failure> {
        if let Command::Quit = command {
            return Ok(Flow::Quit);
        }
        let is_addauth = matches!(command, Command::Addauth { .. });
        let result = self.run(command).await;
        // The output before a failure is printed before the failure.
        self.output.flush()?;
        let explained = |failure| match is_addauth {
            true => failure,
            false => self.connection.explained(failure),
        };
        result.map(|()| Flow::Continue).map_err(explained)
    }

    /// Prints the events that have arrived so far.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.watches.take() {
            self.tell_event(event);
        }
    }

    pub(super) fn tell_event(&mut self, event: Answer) {
        if self.prints_watches {
            self.output.event(event);
        }
    }

    /// Runs the commands that print more than one answer, or change the shell.
    async fn run(&mut self, command: Command) -> Result<(), Failure> {
        let answer = match command {
            Command::Word(word) => return self.ask(word).await,
            Command::Stat { path: None, .. } => return self.ask(Word::Stat).await,
            Command::Ls { recursive: true, stat, watch, path } => {
                let client = self.connection.client()?;
                let (watches, output) = (&mut self.watches, &mut self.output);
                return znodes::list_all(&client, watches, output, &path, stat, watch).await;
            }
            Command::Watch { recursive, count, path } => {
                return self.follow(&path, recursive, count).await;
            }
            Command::Connect { server } => self.connect(server).await?,
            Command::Close => self.close().await,
            Command::Redo { .. } => return Err(out_of_range()),
            Command::Version => version(),
            Command::History => self.last_commands(),
            Command::Printwatches { switch } => self.print_watches(switch),
            command => self.answer(command).await?,
        };
        Ok(self.output.answer(answer)?)
    }

    /// Runs a command that has one answer and needs a session.
    async fn answer(&mut self, command: Command) -> Result<Answer, Failure> {
        let client = self.connection.client()?;
        let watches = &mut self.watches;
        match command {
            Command::Ls { stat, watch, path, .. } => {
                znodes::list(&client, watches, path, stat, watch).await
            }
            Command::Get { stat, watch, form, path } => {
                znodes::get(&client, watches, path, form, stat, watch).await
            }
            Command::Stat { watch, path } => {
                znodes::stat(&client, watches, path.unwrap_or_default(), watch).await
            }
            Command::Create { parents, create } => {
                self.warn_of(&create.acl);
                znodes::create(&client, create, parents).await
            }
            Command::Set { stat, base64, set } => {
                znodes::set_data(&client, set, base64, stat).await
            }
            Command::Delete(delete) => znodes::delete(&client, &delete).await,
            Command::Deleteall { path, .. } if path == "/" => Err(Failure::Root),
            Command::Deleteall { path, batch } => {
                tree::delete_all(&client, &path, batch).await?;
                Ok(Answer::of("deleteall").at(&path))
            }
            Command::GetAcl { stat, path } => znodes::acl(&client, &path, stat).await,
            Command::SetAcl { recursive, stat, version, path, acl } => {
                self.warn_of(&acl);
                match recursive {
                    true => znodes::set_acl_of_all(&client, &path, &acl, version).await,
                    false => znodes::set_acl(&client, &path, acl, version, stat).await,
                }
            }
            Command::Multi { operations } => multi::run(&client, &operations).await,
            Command::AddWatch { mode, path } => self.add_watch(&client, path, mode.mode()).await,
            Command::Removewatches { kinds, path, .. } => self.remove_watches(path, kinds),
            Command::GetEphemerals { path } => znodes::ephemerals(&client, &path).await,
            Command::GetAllChildrenNumber { path } => {
                let number = client.all_children_number(&path).await?;
                let answer = Answer::of("getAllChildrenNumber").at(&path).with("number", number);
                Ok(answer.line(&number.to_string()))
            }
            Command::Setquota { quota, path } => set_quota(&client, &path, &quota).await,
            Command::Listquota { path } => quota::list(&client, &path).await,
            Command::Delquota { kinds, path } => quota::delete(&client, &path, kinds.key()).await,
            Command::Config { client: is_for_clients, watch, stat } => {
                self.config(&client, ConfigForm { is_for_clients, has_stat: stat }, watch).await
            }
            Command::Reconfig { stat, version, members } => {
                ensemble::reconfigure(&client, members, version, stat).await
            }
            Command::Sync { path } => {
                client.sync(&path).await?;
                Ok(Answer::of("sync").at(&path).line("Sync is OK"))
            }
            Command::Whoami => who_am_i(&client).await,
            Command::Addauth { scheme, credentials } => {
                authenticate(&client, scheme, credentials).await
            }
            Command::Locks { path } => Ok(locks::report(&client, &path).await?),
            command => unreachable!("{command:?} is run elsewhere"),
        }
    }

    /// Asks each server of the connection string.
    async fn ask(&mut self, word: Word) -> Result<(), Failure> {
        let hosts: Hosts = self.connection.servers().parse()?;
        let limit = self.connection.limit();
        let request = self.connection.word(word.request())?;
        let mut failed = None;
        for server in hosts.addresses() {
            if hosts.addresses().len() > 1 && !self.output.is_json() {
                self.output.part(format!("{server}:\n").as_bytes())?;
            }
            let (request, output) = (request.clone(), &mut self.output);
            if let Err(failure) = four_letter::ask(server, word, request, limit, output).await {
                // The others are asked all the same, and the last failure is told by the caller.
                if let Some(earlier) = failed.replace(failure) {
                    self.output.tell(&earlier, None);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn connect(&mut self, server: Option<String>) -> Result<Answer, Failure> {
        if let Some(server) = server {
            server.parse::<Hosts>()?;
            self.connection.set_servers(server);
        }
        self.watches.clear();
        self.connection.close().await;
        self.connection.open(&self.output).await?;
        let session = self.connection.client()?.session_id();
        let answer = Answer::of("connect").with("server", self.connection.servers());
        Ok(answer.with("session", session.to_string()))
    }

    async fn close(&mut self) -> Answer {
        self.watches.clear();
        self.connection.close().await;
        Answer::of("close")
    }

    fn last_commands(&self) -> Answer {
        let mut answer = Answer::of("history");
        let mut lines = Vec::new();
        for (number, line) in self.history.last() {
            answer = answer.line(&format!("{number} - {line}"));
            lines.push(json!({ "number": number, "line": line }));
        }
        answer.with("lines", lines)
    }

    fn print_watches(&mut self, switch: Option<Switch>) -> Answer {
        let answer = Answer::of("printwatches");
        if let Some(switch) = switch {
            self.prints_watches = switch == Switch::On;
            return answer.with("is_on", self.prints_watches);
        }
        let state = if self.prints_watches { "on" } else { "off" };
        answer.with("is_on", self.prints_watches).line(&format!("printwatches is {state}"))
    }

    /// Warns of entries that nobody can ever match.
    fn warn_of(&self, acl: &AclList) {
        for user in acl.without_hash() {
            self.output.notice(&format!(
                "warning: after digest:{user}: stands no hash, so nobody can be who it names; \
                 `zoolet digest {user}` prints the hash of a password"
            ));
        }
    }

    async fn add_watch(
        &mut self,
        client: &Client,
        path: String,
        mode: WatchMode,
    ) -> Result<Answer, Failure> {
        let watcher = client.watch(&path, mode).await?;
        let answer = Answer::of("addWatch").at(&path);
        self.watches.add_persistent(path, mode.into(), watcher);
        Ok(answer)
    }

    fn remove_watches(&mut self, path: String, kinds: RemovedWatches) -> Result<Answer, Failure> {
        // Events that came before the removal are told before it.
        self.drain_events();
        let (what, removed) = match kinds {
            RemovedWatches { children: true, .. } => (
                "watch for children",
                self.watches.remove(&path, |kind| kind == WatchKind::Children),
            ),
            RemovedWatches { data: true, .. } => {
                ("watch for data", self.watches.remove(&path, |kind| kind == WatchKind::Data))
            }
            RemovedWatches { persistent: true, .. } => (
                "persistent watch",
                self.watches.remove(&path, |kind| kind == WatchKind::Persistent),
            ),
            RemovedWatches { recursive: true, .. } => (
                "persistent recursive watch",
                self.watches.remove(&path, |kind| kind == WatchKind::Recursive),
            ),
            _ => ("watch", self.watches.remove(&path, |_| true)),
        };
        if removed.is_empty() {
            return Err(Failure::NoWatcher { path, what });
        }
        let answer = Answer::of("removewatches").at(&path).with("removed", removed.len());
        removed.into_iter().for_each(|event| self.tell_event(event));
        Ok(answer)
    }

    async fn config(
        &mut self,
        client: &Client,
        form: ConfigForm,
        is_watched: bool,
    ) -> Result<Answer, Failure> {
        let (answer, watcher) = ensemble::config(client, form, is_watched).await?;
        if let Some(watcher) = watcher {
            self.watches.add(ensemble::CONFIG.to_owned(), WatchKind::Data, watcher);
        }
        Ok(answer)
    }

    /// Prints changes up to the number that was asked for.
    async fn follow(
        &mut self,
        path: &str,
        recursive: bool,
        count: Option<u64>,
    ) -> Result<(), Failure> {
        let client = self.connection.client()?;
        let mode = if recursive { WatchMode::PERSISTENT_RECURSIVE } else { WatchMode::PERSISTENT };
        let mut watcher = client.watch(path, mode).await?;
        let answer = Answer::of("watch").at(path).line(&format!("watching {path}"));
        self.output.answer(answer)?;
        let mut left = count;
        while left != Some(0) {
            self.output.flush()?;
            let event = watcher.next().await?;
            self.output.answer(watches::answer(&event))?;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }
}

async fn set_quota(client: &Client, path: &str, quota: &NewQuota) -> Result<Answer, Failure> {
    match quota.limit() {
        Some(limit) => quota::set(client, path, limit).await,
        None => Err(Failure::Usage("setquota needs one of -n, -b, -N and -B".to_owned())),
    }
}

async fn who_am_i(client: &Client) -> Result<Answer, Failure> {
    let mut answer = Answer::of("whoami").line("Auth scheme: User");
    let mut identities = Vec::new();
    for info in client.who_am_i().await? {
        let (scheme, user) = (info.scheme.unwrap_or_default(), info.user.unwrap_or_default());
        answer = answer.line(&format!("{scheme}: {user}"));
        identities.push(json!({ "scheme": &*scheme, "user": &*user }));
    }
    Ok(answer.with("identities", identities))
}

async fn authenticate(
    client: &Client,
    scheme: String,
    credentials: Option<String>,
) -> Result<Answer, Failure> {
    if scheme == "digest" && credentials.as_deref().unwrap_or_default().is_empty() {
        return Err(Failure::Usage(
            "addauth digest needs USER:PASSWORD: addauth digest ann:PASSWORD".to_owned(),
        ));
    }
    let answer = Answer::of("addauth").with("scheme", scheme.as_str());
    client.authenticate(scheme, Bytes::from(credentials.unwrap_or_default())).await?;
    Ok(answer)
}

fn out_of_range() -> Failure {
    Failure::Usage("Command index out of range; `history` lists the commands".to_owned())
}

fn version() -> Answer {
    let version = env!("CARGO_PKG_VERSION");
    let answer = Answer::of("version").with("version", version);
    answer.line(&format!("zoolet CLI version: {version}"))
}
