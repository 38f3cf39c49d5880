//! Quotas: znodes below `/zookeeper/quota`, which the shell writes and the server reads.

use bytes::Bytes;
use serde_json::{Value, json};
use zoolet_client::{Client, Error, Parents};
use zoolet_core::StatsTrack;
use zoolet_protocol::{Acl, Create, CreateMode, ErrorCode, MultiOp, OpCode};

use super::answer::Answer;
use super::arguments::Limit;
use super::failure::Failure;
use super::tree::Walk;

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// How often a change is tried again that another client came before.
const TRIES_MAX: usize = 10;

/// The quota of a path. Its znodes are not below a chroot.
struct Quota<'a> {
    /// The path as it was typed.
    path: &'a str,
    /// The path as the server names it.
    server_path: String,
    /// A client without a chroot.
    client: Client,
}

impl<'a> Quota<'a> {
    fn of(client: &Client, path: &'a str) -> Self {
        Self { path, server_path: client.server_path(path), client: client.without_namespace() }
    }

    /// The znode that has the limits and the counters as children.
    fn folder(&self) -> String {
        folder(&self.server_path)
    }

    fn limits(&self) -> String {
        format!("{}/{LIMITS}", self.folder())
    }

    fn stats(&self) -> String {
        format!("{}/{STATS}", self.folder())
    }

    /// Reads limits or counters, and the version of their znode.
    async fn track(&self, path: &str) -> Result<(StatsTrack, i32), Failure> {
        let (data, stat) = self.client.get(path).await?;
        match StatsTrack::parse(Some(&data)) {
            Some(track) => Ok((track, stat.version)),
            None => Err(Failure::Quota(format!("the data of {path} is not that of a quota"))),
        }
    }

    /// Refuses a quota on quotas, on a znode that does not exist, and above or below another quota.
    async fn check_place(&self) -> Result<(), Failure> {
        let Self { path, server_path, client } = self;
        if server_path == ROOT || server_path.starts_with(&format!("{ROOT}/")) {
            return Err(Failure::Quota(format!("cannot set a quota under the path: {ROOT}")));
        }
        if client.exists(server_path).await?.is_none() {
            let (path, code) = ((*path).to_owned(), ErrorCode::NO_NODE);
            return Err(Error::Refused { op: OpCode::EXISTS, path, code, index: None }.into());
        }
        let mut walk = Walk::new(client, &folder(server_path));
        let own = self.limits();
        while let Some(found) = walk.next().await.or_else(none_is_fine)? {
            let limited = found.path.strip_suffix("/zookeeper_limits");
            if let Some(limited) = limited.filter(|_| found.path != own) {
                let child = limited.strip_prefix(ROOT).unwrap_or(limited);
                return Err(Failure::Quota(format!(
                    "{path} has a child {child} which has a quota"
                )));
            }
        }
        for (slash, _) in server_path.match_indices('/').skip(1) {
            let parent = &server_path[..slash];
            if client.exists(&format!("{}/{LIMITS}", folder(parent))).await?.is_some() {
                return Err(Failure::Quota(format!(
                    "{path} has a parent {parent} which has a quota"
                )));
            }
        }
        Ok(())
    }

    /// Creates the znodes of a new quota.
    async fn create(&self, limits: &StatsTrack) -> Result<(), Error> {
        let folder = self.folder();
        match self.client.create(&folder).parents(Parents::Persistent).await {
            Err(error) if !error.is(ErrorCode::NODE_EXISTS) => return Err(error),
            _ => {}
        }
        let mut none = StatsTrack::default();
        none.set(StatsTrack::COUNT, 0);
        none.set(StatsTrack::BYTES, 0);
        let has_stats = self.client.exists(&self.stats()).await?.is_some();
        let stats = (!has_stats).then(|| created(self.stats(), &none));
        // The server counts when the counters are created, so the limits come first.
        let ops = std::iter::once(created(self.limits(), limits)).chain(stats).collect();
        self.client.multi(ops).await.map(drop)
    }
}

fn folder(server_path: &str) -> String {
    format!("{ROOT}{}", server_path.trim_end_matches('/'))
}

fn created(path: String, track: &StatsTrack) -> MultiOp {
    let mode = CreateMode::Persistent;
    MultiOp::Create(Create {
        kind: mode.kind(),
        path: path.into(),
        data: Some(track.to_string().into()),
        acl: Some(vec![Acl::open()]),
        flags: mode.flags(),
    })
}

fn none_is_fine<T>(error: Error) -> Result<Option<T>, Error> {
    if error.is(ErrorCode::NO_NODE) { Ok(None) } else { Err(error) }
}

/// Sets one limit of a path's quota, and keeps its others.
pub(super) async fn set(client: &Client, path: &str, limit: Limit) -> Result<Answer, Failure> {
    let quota = Quota::of(client, path);
    quota.check_place().await?;
    let mut tries = 0;
    let limits = loop {
        tries += 1;
        let (mut limits, written) = match quota.track(&quota.limits()).await {
            Ok((mut limits, version)) => {
                limits.set(limit.key, limit.value);
                let data = Bytes::from(limits.to_string());
                let written = quota.client.set(&quota.limits(), data).version(version).await;
                (limits, written.map(drop))
            }
            Err(Failure::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                let limits = new_limits(limit);
                let written = quota.create(&limits).await;
                (limits, written)
            }
            Err(failure) => return Err(failure),
        };
        match written {
            Ok(()) => break std::mem::take(&mut limits),
            // Another client came first.
            Err(error)
                if tries < TRIES_MAX
                    && [ErrorCode::BAD_VERSION, ErrorCode::NODE_EXISTS, ErrorCode::NO_NODE]
                        .iter()
                        .any(|code| error.is(*code)) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let (used, _) = quota.track(&quota.stats()).await?;
    let answer = Answer::of("setquota").at(path).with("limits", limits_value(&limits));
    let answer = answer.with("used", used_value(&used));
    Ok(warnings(&limits, &used).iter().fold(answer, |answer, warning| answer.line(warning)))
}

/// All limits, in the form in which ZooKeeper's shell writes them.
fn new_limits(limit: Limit) -> StatsTrack {
    let mut limits = StatsTrack::default();
    for key in KEYS {
        limits.set(key, -1);
    }
    limits.set(limit.key, limit.value);
    limits
}

const KEYS: [&str; 4] = [
    StatsTrack::COUNT,
    StatsTrack::BYTES,
    StatsTrack::COUNT_HARD_LIMIT,
    StatsTrack::BYTE_HARD_LIMIT,
];

/// The warnings of ZooKeeper's shell about limits that are exceeded already.
fn warnings(limits: &StatsTrack, used: &StatsTrack) -> Vec<String> {
    let kinds = [
        ("count", StatsTrack::COUNT, StatsTrack::COUNT_HARD_LIMIT),
        ("bytes", StatsTrack::BYTES, StatsTrack::BYTE_HARD_LIMIT),
    ];
    let warning = |(name, soft, hard): (&str, &str, &str)| {
        let used = used.value(soft);
        let is_exceeded = |key| (0..used).contains(&limits.value(key));
        (is_exceeded(soft) || is_exceeded(hard)).then(|| {
            format!(
                "[Warning]: the {name} quota you create is less than the existing {name}:{used}"
            )
        })
    };
    kinds.into_iter().filter_map(warning).collect()
}

/// The quota of a path, and what of it is used.
pub(super) async fn list(client: &Client, path: &str) -> Result<Answer, Failure> {
    let quota = Quota::of(client, path);
    let no_quota = |failure| match failure {
        Failure::Client(error) if error.is(ErrorCode::NO_NODE) => {
            Failure::NoQuota(format!("quota for {path} does not exist."))
        }
        failure => failure,
    };
    let (limits, _) = quota.track(&quota.limits()).await.map_err(no_quota)?;
    let (used, _) = quota.track(&quota.stats()).await.map_err(no_quota)?;
    let answer = Answer::of("listquota").at(path);
    let answer = answer.with("limits", limits_value(&limits)).with("used", used_value(&used));
    let answer = answer.line(&format!("Output quota for {path} {limits}"));
    Ok(answer.line(&format!("Output stat for {path} {used}")))
}

/// Removes one limit of a path's quota, or the quota.
pub(super) async fn delete(
    client: &Client,
    path: &str,
    key: Option<&str>,
) -> Result<Answer, Failure> {
    let quota = Quota::of(client, path);
    let answer = Answer::of("delquota").at(path);
    let (mut limits, version) = match quota.track(&quota.limits()).await {
        Err(Failure::Client(error)) if error.is(ErrorCode::NO_NODE) => {
            return Err(Failure::NoQuota(format!("Quota does not exist for {path}")));
        }
        read => read?,
    };
    if let Some(key) = key {
        limits.set(key, -1);
        let data = Bytes::from(limits.to_string());
        quota.client.set(&quota.limits(), data).version(version).await?;
        return Ok(answer.with("limits", limits_value(&limits)));
    }
    for path in [quota.limits(), quota.stats()] {
        quota.client.delete(&path).await.or_else(gone_is_fine)?;
    }
    // The ancestors, up to the first that leads to other quotas.
    let mut folder = quota.folder();
    while folder != ROOT {
        match quota.client.delete(&folder).await {
            Err(error) if error.is(ErrorCode::NOT_EMPTY) => break,
            deleted => deleted.or_else(gone_is_fine)?,
        }
        folder.truncate(folder.rfind('/').unwrap_or_default());
    }
    Ok(answer)
}

fn gone_is_fine(error: Error) -> Result<(), Error> {
    if error.is(ErrorCode::NO_NODE) { Ok(()) } else { Err(error) }
}

fn limits_value(limits: &StatsTrack) -> Value {
    KEYS.iter().map(|key| ((*key).to_owned(), json!(limits.value(key)))).collect()
}

fn used_value(used: &StatsTrack) -> Value {
    let value = |key| used.value(key);
    json!({ "count": value(StatsTrack::COUNT), "bytes": value(StatsTrack::BYTES) })
}
