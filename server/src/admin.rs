//! What a server offers to administrators over HTTP.
//!
//! [`http`] serves pages on a port: limits, an orderly end, and no service to pages in a browser.

pub mod http;
