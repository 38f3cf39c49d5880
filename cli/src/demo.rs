//! `zoolet demo`: a sale in which more is sold than there is, and how a lock prevents it.

mod sale;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use self::sale::{Act, Sale, Sold};
use crate::bench::common::Target;
use crate::bench::failure::Failure;
use crate::bench::server::{BenchServer, ClientOptions, ClientSecurity, Endpoint};
use crate::bench::table::STYLE;
use crate::bench::values::{Unit, grouped};
use crate::complain;
use crate::logging::{self, LogLevel};
use crate::serve::raise_descriptor_limit;
use crate::server_options::values;
use crate::signals::Signals;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Demo {
    /// How many buyers there are, each with a session of its own
    #[arg(long, value_name = "COUNT", default_value = "1500", value_parser = values::some)]
    buyers: usize,

    /// How many items there are to sell
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = values::some)]
    items: usize,

    /// After this time a sale is stopped
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::some_time)]
    time_limit: Duration,

    /// The server [default: one in this process]
    #[arg(short, long, value_name = "HOST:PORT")]
    server: Option<Target>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// Long enough for all buyers to ping a slow server in time.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

impl Demo {
    /// Holds three sales, cleans up, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
        raise_descriptor_limit();
        match self.sold() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !matches!(failure, Failure::Interrupted) {
                    complain(&failure.with_cure());
                }
                failure.exit_code()
            }
        }
    }

    fn sold(&self) -> Result<(), Failure> {
        let target = self.server.clone().unwrap_or(Target::EMBEDDED);
        let endpoint = Endpoint::new(&target, None, &ClientSecurity::default())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(Failure::System)?;
        let sold = runtime.block_on(self.on_server(endpoint))?;
        let told = self.tell(&sold);
        let is_wrong = |sold: &&Sold| sold.act.has_lock() && sold.oversold > 0;
        match sold.iter().find(is_wrong) {
            Some(sold) => Err(Failure::Oversold { sold: sold.sold, items: self.items }),
            None => told,
        }
    }

    async fn on_server(&self, endpoint: Endpoint) -> Result<Vec<Sold>, Failure> {
        // Before anything is created, so that a signal cannot leave it behind.
        let mut signals = Signals::new().map_err(Failure::System)?;
        let options = ClientOptions { session_timeout: SESSION_TIMEOUT, path: None };
        let mut server = None;
        let result = tokio::select! {
            sold = self.all_sales(endpoint, options, &mut server) => sold,
            _ = signals.next() => Err(Failure::Interrupted),
        };
        if let Some(server) = server {
            tokio::select! {
                cleaned = server.clean_up() => cleaned?,
                // A second signal ends the command without waiting.
                _ = signals.next() => return Err(Failure::Interrupted),
            }
        }
        result
    }

    async fn all_sales(
        &self,
        endpoint: Endpoint,
        options: ClientOptions,
        server: &mut Option<BenchServer>,
    ) -> Result<Vec<Sold>, Failure> {
        let server = server.insert(BenchServer::open(endpoint, options).await?);
        if !self.json {
            self.introduce(server)?;
        }
        let mut all = Vec::new();
        for act in Act::ALL {
            let sale =
                Sale { act, buyers: self.buyers, items: self.items, time_limit: self.time_limit };
            all.push(sale.hold(server).await?);
        }
        Ok(all)
    }

    /// Prints what the demo is about to show.
    fn introduce(&self, server: &BenchServer) -> Result<(), Failure> {
        let version = server.version.as_deref().unwrap_or("a server");
        let (items, buyers) = (grouped(self.items as f64), grouped(self.buyers as f64));
        print(&format!(
            "A flash sale on {version}: {items} items, {buyers} buyers, each with a connection of \
             its own.\nEach reads the stock from a znode and, if something is left, writes back \
             one less.\n\n"
        ))
    }

    fn tell(&self, all: &[Sold]) -> Result<(), Failure> {
        if self.json {
            let told = Told { buyers: self.buyers, items: self.items, sales: all };
            let text = serde_json::to_string_pretty(&told).expect("it has only names for keys");
            return print(&format!("{text}\n"));
        }
        let mut table = Table::new();
        table.load_style(STYLE);
        let headings = [
            "sold",
            "oversold",
            "sold out after",
            "all served after",
            "requests",
            "events",
            "events per buyer",
        ];
        let heads = std::iter::once(Cell::new("")).chain(headings.map(right));
        table.set_header(heads);
        for sold in all {
            table.add_row(row(sold));
        }
        print(&format!("{table}\n\n{}\n", moral(all, self.items, self.buyers)))
    }
}

/// The JSON of all sales.
#[derive(Serialize)]
struct Told<'a> {
    buyers: usize,
    items: usize,
    sales: &'a [Sold],
}

fn row(sold: &Sold) -> Vec<Cell> {
    let count = |count: u64| right(&grouped(count as f64));
    let time = |seconds: f64| Unit::Microseconds.text(seconds * MICROSECONDS);
    let sold_out = sold.sold_out_seconds.map_or_else(|| "-".to_owned(), time);
    let served = grouped(sold.served as f64);
    let over = match sold.is_complete {
        true => time(sold.seconds),
        false => format!("stopped at {}, {served} served", time(sold.seconds)),
    };
    vec![
        Cell::new(sold.act.title()),
        count(sold.sold as u64),
        count(sold.oversold as u64),
        right(&sold_out),
        right(&over),
        count(sold.requests),
        count(sold.events),
        right(&Unit::Count.text(sold.events as f64 / sold.served.max(1) as f64)),
    ]
}

const MICROSECONDS: f64 = 1e6;

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The conclusion, in a sentence or two.
fn moral(all: &[Sold], items: usize, buyers: usize) -> String {
    let of = |act| all.iter().find(|sold: &&Sold| sold.act == act);
    let (Some(none), Some(herd), Some(mutex)) =
        (of(Act::NoLock), of(Act::Herd), of(Act::Predecessor))
    else {
        return String::new();
    };
    let has_enough_for_all = items >= buyers;
    let items = grouped(items as f64);
    let first = match none.oversold {
        0 if has_enough_for_all => {
            "There was enough for all, so that nothing could be oversold; ask for fewer --items than \
             --buyers to see what a lock prevents."
                .to_owned()
        }
        0 => "Without a lock nothing was oversold this time; it was luck.".to_owned(),
        _ => {
            let sold = grouped(none.sold as f64);
            format!("Without a lock {sold} were sold of {items}.")
        }
    };
    let each = |sold: &Sold| sold.events as f64 / sold.served.max(1) as f64;
    if herd.is_complete && each(herd) <= each(mutex) {
        return format!(
            "{first} Both locks sell what there is, and no more; with so few buyers it makes no \
             difference whether a release wakes one of those who wait or all of them."
        );
    }
    let events = Unit::Count.text(each(herd) / each(mutex).max(1.0));
    let least = if herd.is_complete { "" } else { "more than " };
    let times = herd.seconds / mutex.seconds;
    let time = match times > 1.0 {
        true => format!("takes {least}{} times as long", Unit::Count.text(times)),
        // A machine with other work can be that uneven.
        false => "takes no longer this time".to_owned(),
    };
    format!(
        "{first} Both locks sell what there is, and no more; but where each release wakes all who \
         wait, the sale {time}, and each buyer costs {events} times as many events."
    )
}

fn print(text: &str) -> Result<(), Failure> {
    crate::print(text).map_err(|error| Failure::Report { path: "stdout".into(), error })
}

const AFTER_HELP: &str = "\
The sale is held three times: without a lock; with a lock for which all who wait watch one znode
and are all woken whenever it is free (the herd effect); and with InterProcessMutex, by which one is
woken. Everything is done below one znode, which is deleted at the end, also after Ctrl-C.

Exit status: 0 if the locks did their duty, 1 if more was sold than there was under one of them or
the results cannot be printed, 2 if the arguments are wrong, 69 if there is no server or the
connection to it was lost, 70 if the server refused, 71 if the system refused what this needs, 130
after Ctrl-C.";
