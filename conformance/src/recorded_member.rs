//! A member of a fleet that writes down each attempt to take a lock; see [`zoolet_conformance::fleet::recorded`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use zoolet_client::Client;
use zoolet_conformance::fleet::recorded::now_us;
use zoolet_recipes::{
    Guard, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, LockError,
    Permits,
};

use crate::fleet_member::{Arguments, Outcome, Recipe, got, is_seldom, stay, time_to_wait};

/// The locks of which a member takes one at a time.
struct Locks {
    mutex: InterProcessMutex,
    read_write: InterProcessReadWriteLock,
    semaphore: InterProcessSemaphoreV2,
}

enum Held {
    Guard(Guard),
    Permits(Permits),
}

impl Held {
    async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Permits(permits) => permits.release().await,
        }
    }
}

/// Takes locks until the standard input ends. The line `keep KIND` has the next hold of that kind last until the
/// process is killed, and `leave KIND` has it end with the session.
pub(crate) async fn contend(
    arguments: &Arguments,
    client: &Client,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let Arguments { path, capacity, .. } = arguments;
    let locks = Locks {
        mutex: InterProcessMutex::new(client, path)?,
        read_write: InterProcessReadWriteLock::new(client, path)?,
        semaphore: InterProcessSemaphoreV2::new(client, path, *capacity as usize)?,
    };
    let mut record = Record::open(arguments, client)?;
    let mut wish = String::new();
    loop {
        match told.try_recv() {
            Ok(line) => wish = line,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        let kind = match arguments.recipe {
            Recipe::RecordedMutex => "mutex",
            Recipe::RecordedSemaphore => "permit",
            _ if is_seldom() => "write",
            _ => "read",
        };
        let time = time_to_wait();
        record.note(kind, "asks")?;
        let Some(held) = got(time, locks.take(kind, time).await)? else {
            record.note(kind, "gives-up")?;
            continue;
        };
        record.note(kind, "has")?;
        stay().await;
        match wish.split_once(' ') {
            Some(("keep", of)) if of == kind => {
                println!("keeps");
                std::future::pending::<()>().await;
            }
            Some(("leave", of)) if of == kind => {
                record.note(kind, "closes")?;
                client.clone().close().await?;
                record.note(kind, "closed")?;
                println!("leaves");
                return Ok(());
            }
            _ => {}
        }
        record.note(kind, "releases")?;
        held.release().await?;
        record.note(kind, "released")?;
    }
}

impl Locks {
    async fn take(&self, kind: &str, time: Duration) -> Result<Held, LockError> {
        let Self { mutex, read_write, semaphore } = self;
        match kind {
            "mutex" => mutex.acquire_within(time).await.map(Held::Guard),
            "read" => read_write.read_lock().acquire_within(time).await.map(Held::Guard),
            "write" => read_write.write_lock().acquire_within(time).await.map(Held::Guard),
            _ => semaphore.acquire_within(1, time).await.map(Held::Permits),
        }
    }
}

/// The file to which attempts are written.
struct Record {
    name: String,
    session: String,
    file: File,
}

impl Record {
    fn open(arguments: &Arguments, client: &Client) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(arguments.folder.join("entries"))?;
        let session = client.session_id().to_string();
        Ok(Self { name: arguments.name.clone(), session, file })
    }

    /// Writes a line at once, so that those of a process that is killed are there.
    fn note(&mut self, kind: &str, event: &str) -> Outcome<()> {
        let line = format!("{} {} {kind} {event} {}\n", self.name, self.session, now_us());
        Ok(self.file.write_all(line.as_bytes())?)
    }
}
