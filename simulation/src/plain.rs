//! Reads, writes and watches without a recipe.

use std::time::Duration;

use zoolet_client::{CreateMode, Operation, Parents};
use zoolet_protocol::{
    Acl, Check, Create, CreateFlags, CreateKind, Delete, Expect, MultiOp, MultiReadOp, SetData,
    WatchMode,
};

use super::registers::Call;
use super::tree::raw;
use super::worker::Worker;

/// Znodes that are only read and written.
pub(crate) const REGISTERS: [&str; 3] = ["/data/0", "/data/1", "/data/2"];

impl Worker {
    /// One action without a recipe.
    pub(crate) async fn plain(&mut self) {
        match self.rng.u8(..18) {
            0..=2 => self.read_register().await,
            3..=5 => self.write_register().await,
            6 | 7 => self.watch_register().await,
            8 | 9 => self.create().await,
            10 => self.delete().await,
            11 => self.set().await,
            12 => self.look().await,
            13 | 14 => self.multi().await,
            15 => self.watch_for_long().await,
            16 => self.read_much().await,
            _ => self.create_in_a_container().await,
        }
    }

    fn register(&mut self) -> &'static str {
        REGISTERS[self.rng.usize(..REGISTERS.len())]
    }

    /// A path that may exist.
    fn path(&mut self) -> String {
        match self.rng.u8(..3) {
            0 => format!("/tree/{}/{}", self.rng.u8(..3), self.rng.u8(..2)),
            _ => format!("/tree/{}", self.rng.u8(..3)),
        }
    }

    async fn read_register(&mut self) {
        self.common.note(self.name, "read");
        let path = self.register();
        let began = self.common.registers.place();
        let answer = self.client.get(path).await;
        if let Some((data, stat)) = self.take(answer) {
            let ended = self.common.registers.place();
            let (version, value) = (stat.version, data.to_vec());
            let call = Call { is_write: false, version, value, began, ended };
            self.common.registers.add(path, call);
        }
    }

    async fn write_register(&mut self) {
        self.common.note(self.name, "write");
        let (path, value) = (self.register(), self.value());
        let mut set = self.client.set(path, value.clone());
        if self.rng.u8(..3) == 0 {
            // Another client may be faster.
            let Some((_, stat)) = self.take(self.client.get(path).await) else { return };
            set = set.version(stat.version);
        }
        let began = self.common.registers.place();
        if let Some(stat) = self.take(set.await) {
            let ended = self.common.registers.place();
            let (version, value) = (stat.version, value.into_bytes());
            let call = Call { is_write: true, version, value, began, ended };
            self.common.registers.add(path, call);
        }
    }

    async fn watch_register(&mut self) {
        self.common.note(self.name, "watch");
        let path = self.register();
        let count = self.rng.u32(1..3);
        for _ in 0..count {
            let watched = self.client.get(path).and_watch().await;
            if let Some(watched) = self.take(watched) {
                self.register_watchers.push(watched.watcher);
            }
        }
    }

    async fn create(&mut self) {
        self.common.note(self.name, "create");
        let (path, value) = (self.path(), self.value());
        let create = self.client.create(&path).data(value);
        let create = match self.rng.u8(..6) {
            0 => create.mode(CreateMode::Ephemeral),
            1 => create.mode(CreateMode::PersistentSequential),
            2 => create.mode(CreateMode::EphemeralSequential).protected(),
            3 => create.or_set(),
            4 => create.parents(Parents::Persistent),
            _ => create,
        };
        self.take(create.await);
    }

    async fn delete(&mut self) {
        self.common.note(self.name, "delete");
        let path = self.path();
        let delete = self.client.delete(&path);
        let delete = if self.rng.bool() { delete.version(self.rng.i32(0..3)) } else { delete };
        match self.rng.u8(..4) {
            // The watcher is dropped before the reply.
            0 => drop(delete.send()),
            1 => delete.guaranteed(),
            _ => drop(self.take(delete.await)),
        }
    }

    async fn set(&mut self) {
        self.common.note(self.name, "set");
        let (path, value) = (self.path(), self.value());
        // The call is dropped after a while, whatever its result.
        let set = tokio::time::timeout(Duration::from_millis(40), self.client.set(&path, value));
        if let Ok(answer) = set.await {
            self.take(answer);
        }
    }

    async fn look(&mut self) {
        self.common.note(self.name, "look");
        let path = self.path();
        match self.rng.u8(..5) {
            0 => self.look_and_watch(self.client.exists(&path)).await,
            1 => self.look_and_watch(self.client.children("/tree")).await,
            2 => self.look_and_watch(self.client.children_and_stat(&path)).await,
            3 => drop(self.take(self.client.ephemerals("/").await)),
            _ => drop(self.take(self.client.all_children_number("/tree").await)),
        }
    }

    async fn look_and_watch<T: Send + 'static>(&mut self, look: Operation<T>) {
        if let Some(watched) = self.take(look.and_watch().await) {
            self.watchers.push(watched.watcher);
        }
    }

    /// A multi of some operations, of which one may be refused.
    async fn multi(&mut self) {
        self.common.note(self.name, "multi");
        let count = self.rng.usize(1..5);
        let mut ops = Vec::new();
        for _ in 0..count {
            let (path, value) = (self.path(), self.value());
            let path = raw(&path);
            let data = Some(value.into_bytes().into());
            ops.push(match self.rng.u8(..6) {
                0 => MultiOp::Delete(Delete { path, version: Expect::Any }),
                1 => MultiOp::Check(Check { path, version: self.rng.i32(0..2).into() }),
                2 | 3 => MultiOp::SetData(SetData { path, data, version: Expect::Any }),
                number => MultiOp::Create(Create {
                    kind: if number == 4 { CreateKind::Create } else { CreateKind::Create2 },
                    path,
                    data,
                    acl: Some(vec![Acl::open()]),
                    flags: CreateFlags(self.rng.i32(0..4)),
                }),
            });
        }
        self.take(self.client.multi(ops).await);
    }

    async fn watch_for_long(&mut self) {
        self.common.note(self.name, "watch for long");
        let (path, mode) = match self.rng.u8(..3) {
            0 => ("/tree", WatchMode::PERSISTENT),
            1 => ("/tree", WatchMode::PERSISTENT_RECURSIVE),
            _ => (self.register(), WatchMode::PERSISTENT),
        };
        let watched = self.client.watch(path, mode).await;
        if let Some(watcher) = self.take(watched) {
            self.persistent.push(watcher);
        }
    }

    async fn read_much(&mut self) {
        self.common.note(self.name, "read much");
        let ops = [self.path(), "/tree".to_owned(), self.register().to_owned()];
        let ops = ops.iter().flat_map(|path| {
            [MultiReadOp::GetData(raw(path)), MultiReadOp::GetChildren(raw(path))]
        });
        self.take(self.client.multi_read(ops.collect()).await);
    }

    async fn create_in_a_container(&mut self) {
        self.common.note(self.name, "create in a container");
        let path = format!("/containers/{}/item-", self.rng.u8(..2));
        let create = self.client.create(&path).parents(Parents::Containers);
        let created = create.mode(CreateMode::EphemeralSequential).await;
        if let Some(created) = self.take(created) {
            self.take(self.client.delete(&created.path).await);
        }
    }
}
