//! What carries frames between a client and its `Connection`: a TCP socket, with or without TLS, or
//! a call in the same process.
//!
//! - `ports` are the addresses at which the server listens; `tcp` accepts sockets, and `driver` serves
//!   each of them in a task of its own, over whatever is a `socket`; `output` collects what it writes,
//!   and `descriptors` keeps file descriptors free for the data directory.
//! - `stream` lets the driver serve any other stream of bytes.
//! - `tls`, of the feature of that name, speaks TLS over those sockets.
//! - `four_letter` answers the words that an administrator sends in place of a handshake.
//! - `in_process` handles a request on the thread that sends it.

pub(crate) mod descriptors;
pub(crate) mod in_process;
pub(crate) mod ports;
pub(crate) mod stream;
pub(crate) mod tcp;
#[cfg(feature = "tls")]
pub(crate) mod tls;

mod driver;
mod four_letter;
mod output;
mod socket;
