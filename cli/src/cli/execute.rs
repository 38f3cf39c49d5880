//! Runs the commands of the shell.

use bytes::Bytes;
use zoolet_client::{Client, Error, Parents, Watched};
use zoolet_protocol::{OpCode, WatchMode};

use super::acl::AclList;
use super::commands::{Command, Create, Delete, Set, expected};
use super::failure::Failure;
use super::output::{self, Output};
use super::watches::Watches;
use super::{line, locks, multi, tree};

/// A client, where it prints, and the watches that it waits for.
pub(super) struct Shell {
    pub(super) client: Client,
    pub(super) output: Output,
    pub(super) watches: Watches,
}

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Quit,
}

impl Shell {
    pub(super) fn new(client: Client) -> Self {
        Self { client, output: Output::new(), watches: Watches::default() }
    }

    /// Runs the command of a line.
    pub(super) async fn execute_line(&mut self, line: &str) -> Result<Flow, Failure> {
        match line::words(line)?.as_slice() {
            [] => Ok(Flow::Continue),
            words => self.execute(Command::parse(words)?).await,
        }
    }

    /// Runs a command.
    pub(super) async fn execute(&mut self, command: Command) -> Result<Flow, Failure> {
        if let Command::Quit = command {
            return Ok(Flow::Quit);
        }
        let result = self.answer(command).await;
        // The output before a failure is printed before the failure.
        self.output.flush()?;
        result.map(|()| Flow::Continue)
    }

    /// Prints the events that have arrived so far.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.watches.take() {
            self.output.event(&event);
        }
    }

    async fn answer(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Ls { recursive: true, path, .. } => self.list_all(&path).await,
            Command::Ls { stat, watch, path, .. } => self.list(path, stat, watch).await,
            Command::Get { stat, watch, path } => self.get(path, stat, watch).await,
            Command::Stat { watch, path } => self.stat(path, watch).await,
            Command::Create { parents, create } => self.create(create, parents).await,
            Command::Set { stat, set } => self.set(set, stat).await,
            Command::Delete(delete) => self.delete(&delete).await,
            Command::Deleteall { path } if path == "/" => Err(Failure::Root),
            Command::Deleteall { path } => Ok(tree::delete_all(&self.client, &path).await?),
            Command::GetAcl { stat, path } => self.acl(&path, stat).await,
            Command::SetAcl { version, path, acl } => self.set_acl(&path, acl, version).await,
            Command::Multi { operations } => self.multi(&operations).await,
            Command::Watch { recursive, count, path } => self.follow(&path, recursive, count).await,
            Command::Sync { path } => Ok(self.client.sync(&path).await?),
            Command::Whoami => self.who_am_i().await,
            Command::Addauth { scheme, credentials } => {
                let credentials = Bytes::from(credentials.unwrap_or_default());
                Ok(self.client.authenticate(scheme, credentials).await?)
            }
            Command::Locks { path } => {
                let text = locks::report(&self.client, &path).await?;
                Ok(text.lines().try_for_each(|line| self.output.line(line))?)
            }
            Command::Quit => Ok(()),
        }
    }

    async fn list(&mut self, path: String, stat: bool, watch: bool) -> Result<(), Failure> {
        let operation = self.client.children_and_stat(&path);
        let (names, its_stat) = if watch {
            let Watched { found, watcher } = operation.and_watch().await?;
            self.watches.add(path, watcher);
            found
        } else {
            operation.await?
        };
        let mut names = names.to_vec();
        names.sort_unstable();
        self.output.line(&format!("[{}]", names.join(", ")))?;
        self.print_stat(stat, &its_stat)
    }

    async fn list_all(&mut self, path: &str) -> Result<(), Failure> {
        let mut walk = tree::Walk::new(&self.client, path);
        while let Some(path) = walk.next().await? {
            self.output.line(&path)?;
        }
        Ok(())
    }

    async fn get(&mut self, path: String, stat: bool, watch: bool) -> Result<(), Failure> {
        let operation = self.client.get(&path);
        let (data, its_stat) = if watch {
            let Watched { found, watcher } = operation.and_watch().await?;
            self.watches.add(path, watcher);
            found
        } else {
            operation.await?
        };
        self.output.data(&data)?;
        self.print_stat(stat, &its_stat)
    }

    async fn stat(&mut self, path: String, watch: bool) -> Result<(), Failure> {
        let operation = self.client.exists(&path);
        let found = if watch {
            let Watched { found, watcher } = operation.and_watch().await?;
            // The znode need not exist.
            self.watches.add(path.clone(), watcher);
            found
        } else {
            operation.await?
        };
        match found {
            Some(stat) => self.print_stat(true, &stat),
            None => {
                let code = zoolet_protocol::ErrorCode::NO_NODE;
                Err(Error::Refused { op: OpCode::EXISTS, path, code, index: None }.into())
            }
        }
    }

    async fn create(&mut self, create: Create, parents: bool) -> Result<(), Failure> {
        let mode = create.mode();
        let mut call = self.client.create(&create.path).data(create.data).acl(create.acl.0);
        call = call.mode(mode);
        if parents {
            call = call.parents(Parents::Persistent);
        }
        let created = call.await?;
        Ok(self.output.line(&format!("Created {}", created.path))?)
    }

    async fn set(&mut self, set: Set, stat: bool) -> Result<(), Failure> {
        let mut call = self.client.set(&set.path, set.data.clone());
        if let zoolet_protocol::Expect::Exactly(version) = set.version() {
            call = call.version(version);
        }
        let its_stat = call.await?;
        self.print_stat(stat, &its_stat)
    }

    async fn delete(&self, delete: &Delete) -> Result<(), Failure> {
        let mut call = self.client.delete(&delete.path);
        if let zoolet_protocol::Expect::Exactly(version) = delete.version() {
            call = call.version(version);
        }
        Ok(call.await?)
    }

    async fn acl(&mut self, path: &str, stat: bool) -> Result<(), Failure> {
        let (acl, its_stat) = self.client.acl(path).await?;
        self.output.text(&AclList(acl).to_string())?;
        self.print_stat(stat, &its_stat)
    }

    async fn set_acl(
        &self,
        path: &str,
        AclList(acl): AclList,
        version: Option<i32>,
    ) -> Result<(), Failure> {
        let mut call = self.client.set_acl(path, acl);
        if let zoolet_protocol::Expect::Exactly(version) = expected(version) {
            call = call.version(version);
        }
        Ok(call.await.map(drop)?)
    }

    async fn multi(&mut self, operations: &[String]) -> Result<(), Failure> {
        for path in multi::run(&self.client, operations).await? {
            self.output.line(&format!("Created {path}"))?;
        }
        Ok(())
    }

    /// Prints changes up to the number that was asked for.
    async fn follow(
        &mut self,
        path: &str,
        recursive: bool,
        count: Option<u64>,
    ) -> Result<(), Failure> {
        let mode = if recursive { WatchMode::PERSISTENT_RECURSIVE } else { WatchMode::PERSISTENT };
        let mut watcher = self.client.watch(path, mode).await?;
        self.output.line(&format!("watching {path}"))?;
        let mut left = count;
        while left != Some(0) {
            self.output.flush()?;
            let event = watcher.next().await?;
            self.output.line(&format!("{} {}", event.event_type, event.path))?;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    async fn who_am_i(&mut self) -> Result<(), Failure> {
        for info in self.client.who_am_i().await? {
            let (scheme, user) = (info.scheme.unwrap_or_default(), info.user.unwrap_or_default());
            self.output.line(&format!("{scheme}: {user}"))?;
        }
        Ok(())
    }

    fn print_stat(&mut self, is_wanted: bool, stat: &zoolet_protocol::Stat) -> Result<(), Failure> {
        if is_wanted {
            self.output.text(&output::stat(stat))?;
        }
        Ok(())
    }
}
