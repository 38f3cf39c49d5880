//! `zoolet data export` and `import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Client, Parents};
use zoolet_protocol::{CreateMode, ErrorCode, ZPath, Zxid};
use zoolet_server::storage::Inspection;
use zoolet_server::{Config, Server, Settings};

use super::fresh::Fresh;
use super::json::{KindLine, ZnodeLine};
use super::progress::counter;
use super::{DataError, Directories, require_files};
use crate::cli::acl::AclList;
use crate::counted::counted;
use crate::writers;

#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    directories: Directories,

    /// The znode to begin with; what is built in, below /zookeeper, only if it is named
    #[arg(value_name = "PATH", default_value = "/", value_parser = znode)]
    path: ZPath,

    /// Write to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn znode(text: &str) -> Result<ZPath, zoolet_protocol::PathError> {
    ZPath::parse(text)
}

impl Export {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let opened = Inspection::new(&config)?.open()?;
        match &self.output {
            None => self.write(&opened.state, BufWriter::new(io::stdout()))?,
            Some(path) => {
                let error = |source| DataError::OutputFile { path: path.clone(), source };
                let file = File::create(path).map_err(error)?;
                match self.write(&opened.state, BufWriter::new(file)) {
                    Err(DataError::Output(source)) => return Err(error(source)),
                    written => written?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, state: &zoolet_core::Frozen, mut out: impl Write) -> Result<(), DataError> {
        let counter = counter("znodes", self.output.is_none());
        let top = self.path.as_str();
        let count = write_lines(state, top, &mut out, || counter.inc(1))?;
        counter.finish_and_clear();
        if count == 0 && top != "/" {
            return Err(DataError::NoZnode(top.to_owned()));
        }
        Ok(())
    }
}

/// Prints a znode and its descendants as lines of JSON, and returns how many there were.
pub(super) fn write_lines(
    state: &zoolet_core::Frozen,
    top: &str,
    out: &mut impl Write,
    mut each: impl FnMut(),
) -> Result<u64, DataError> {
    let mut count = 0;
    for znode in state.znodes() {
        if !is_exported(&znode.path, top) {
            continue;
        }
        let path = znode.path.to_string();
        let line = ZnodeLine::new(path, znode.data.as_deref(), znode.acl.entries(), &znode.stat);
        writeln!(out, "{}", serde_json::to_string(&line).map_err(io::Error::other)?)?;
        each();
        count += 1;
    }
    out.flush()?;
    Ok(count)
}

/// Whether a znode belongs to the export of `top`. The root does not, and what is built in only by its
/// name.
pub(super) fn is_exported(path: &str, top: &str) -> bool {
    let is_built_in = is_at_or_below(path, "/zookeeper");
    is_at_or_below(path, top) && (!is_built_in || top != "/") && path != "/"
}

pub(super) fn is_at_or_below(path: &str, top: &str) -> bool {
    top == "/"
        || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    directories: Directories,

    /// The lines that `export` has printed; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The superuser of the importing server, which only this process can reach.
const SUPER: (&str, &str) = ("digest", "super:import");
const SUPER_DIGEST: &str = "super:Nri5ra7bYC5W6mNXFH5YiRlnXQQ=";

impl Import {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let input: Box<dyn BufRead> = if self.file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let path = self.file.clone();
            let file = File::open(&path).map_err(|source| DataError::Input { path, source })?;
            Box::new(BufReader::new(file))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.import(input))
    }

    /// Creates the znodes through a client of a server, so that the files are those of a server.
    async fn import(&self, input: Box<dyn BufRead>) -> Result<ExitCode, DataError> {
        let settings = Settings { super_digest: Some(SUPER_DIGEST.into()), ..Settings::default() };
        let config = self.directories.config();
        writers::refuse_others(&config)?;
        let fresh = Fresh::of(&config);
        let storage = Some(config);
        let config = Config { storage, settings, ..Config::default() };
        let server = Server::builder().config(config).start().await?;
        let mut count = Count::default();
        let done = self.put_all(&server, input, &mut count).await;
        server.shutdown().await;
        let Count { imported, ephemerals, began_with_nothing } = count;
        if let Err(error) = done {
            let fresh = fresh.filter(|_| began_with_nothing);
            let left = match fresh.map(|fresh| fresh.delete()) {
                Some(Ok(())) => "nothing is imported, and no data is left".to_owned(),
                Some(Err(error)) => {
                    let directory = self.directories.data_dir.display();
                    format!("what was created could not be deleted ({error}); look at {directory}")
                }
                None => format!("imported until then: {}", counted(imported, "znode")),
            };
            return Err(DataError::Import { error: Box::new(error), left });
        }
        let (imported, ephemerals) = (counted(imported, "znode"), counted(ephemerals, "ephemeral"));
        crate::print(&format!("{imported} imported, {ephemerals} left out\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Creates what the lines say, and counts it.
    async fn put_all(
        &self,
        server: &Server,
        input: Box<dyn BufRead>,
        count: &mut Count,
    ) -> Result<(), DataError> {
        let client = Client::connect(server.dialer()).await?;
        client.authenticate(SUPER.0, SUPER.1).await?;
        // Another server may have come and gone since this process looked. The session is the first
        // transaction of a server that began with nothing.
        let (_, zxid) = client.exists_with_zxid("/").await?;
        count.began_with_nothing = zxid <= Zxid(1);
        let counter = counter("znodes", false);
        for (number, text) in (1..).zip(input.lines()) {
            let at = |what: String| DataError::Line { line: number, what };
            let path = self.file.clone();
            let text = text.map_err(|source| DataError::Input { path, source })?;
            if text.trim().is_empty() {
                continue;
            }
            let line: ZnodeLine =
                serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
            if let Some(KindLine::EphemeralOf(_)) = line.kind {
                count.ephemerals += 1;
                continue;
            }
            put(&client, line).await.map_err(at)?;
            count.imported += 1;
            counter.inc(1);
        }
        counter.finish_and_clear();
        Ok(client.close().await?)
    }
}

/// What an import has done so far.
#[derive(Debug, Default)]
struct Count {
    imported: u64,
    ephemerals: u64,
    /// Whether the server was without data at its start.
    began_with_nothing: bool,
}

/// Creates a znode, or sets the data and the access control list of an existing one.
async fn put(client: &Client, line: ZnodeLine) -> Result<(), String> {
    let data = line.bytes()?.unwrap_or_default();
    let acl = match &line.acl {
        Some(entries) => {
            let list: AclList = entries
                .join(",")
                .parse()
                .map_err(|error: crate::cli::acl::BadAcl| error.to_string())?;
            Some(list.0)
        }
        None => None,
    };
    let create = client.create(&line.path).data(data.clone()).parents(Parents::Persistent);
    let create = match line.kind {
        Some(KindLine::Container) => create.mode(CreateMode::Container),
        Some(KindLine::TtlMs(ms)) => match u64::try_from(ms) {
            Ok(ms) if ms > 0 => {
                create.mode(CreateMode::PersistentWithTtl(Duration::from_millis(ms)))
            }
            _ => return Err(format!("ttl_ms must be more than 0, not {ms}")),
        },
        Some(KindLine::EphemeralOf(_)) | None => create,
    };
    let create = match &acl {
        Some(acl) => create.acl(acl.clone()),
        None => create,
    };
    match create.await {
        Ok(_) => return Ok(()),
        Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
        Err(error) => return Err(error.to_string()),
    }
    client.set(&line.path, data).await.map_err(|error| error.to_string())?;
    let acl = acl.unwrap_or_else(|| vec![zoolet_protocol::Acl::open()]);
    client.set_acl(&line.path, acl).await.map(drop).map_err(|error| error.to_string())
}
