//! A configuration follows its files, and survives bad ones.

// Symbolic links are made by other means elsewhere.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rcgen::date_time_ymd;
use support::{Authority, handshake};
use zoolet_tls::{ClientTls, ServerTls, ServerTlsOptions, Store, TlsError};

/// The name by which the server knows a client whose certificate is in this file.
fn name_at(server: &ServerTls, ca: &Authority, file: &str) -> Option<String> {
    let client = ClientTls::load(ca.client_options().key_store(ca.store(file))).unwrap();
    handshake(server, &client).ok().and_then(|agreed| agreed.client)
}

#[test]
fn nothing_is_loaded_while_no_file_changes() {
    let ca = Authority::new();
    let server = ServerTls::load(ca.server_options()).unwrap();
    let before = server.config();
    assert!(!server.reload_if_changed().unwrap());
    assert!(std::sync::Arc::ptr_eq(&before, &server.config()));
}

#[test]
fn a_new_trust_store_admits_new_clients_and_no_old_ones() {
    let (ca, next) = (Authority::new(), Authority::new());
    ca.issue("old");
    fs::copy(next.issue("new"), ca.path("new.pem")).unwrap();
    fs::copy(ca.path("ca.pem"), ca.path("trusted.pem")).unwrap();
    let options = ca.server_options().trust_store(ca.store("trusted.pem"));
    let server = ServerTls::load(options).unwrap();
    assert_eq!(name_at(&server, &ca, "old.pem").as_deref(), Some("CN=old"));
    assert_eq!(name_at(&server, &ca, "new.pem"), None);
    fs::copy(next.path("ca.pem"), ca.path("trusted.pem")).unwrap();
    assert!(server.reload_if_changed().unwrap());
    assert_eq!(name_at(&server, &ca, "old.pem"), None);
    assert_eq!(name_at(&server, &ca, "new.pem").as_deref(), Some("CN=new"));
}

/// A file that is half written, one that is missing, and a certificate that has expired leave the
/// configuration as it was.
#[test]
fn a_bad_file_leaves_the_old_configuration() {
    let ca = Authority::new();
    let own = ca.issue("server");
    let options = ServerTlsOptions::new(Store::new(&own)).trust_store(ca.store("ca.pem"));
    let server = ServerTls::load(options).unwrap();
    let before = server.config();
    let is_as_before = || std::sync::Arc::ptr_eq(&before, &server.config());

    let whole = fs::read(&own).unwrap();
    fs::write(&own, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(server.reload_if_changed(), Err(TlsError::File { .. })));
    assert!(is_as_before());
    // The same files are not tried twice.
    assert!(!server.reload_if_changed().unwrap());

    // A file that is not there may come at any moment.
    fs::remove_file(&own).unwrap();
    assert!(matches!(server.reload_if_changed(), Err(TlsError::Io { .. })));
    assert!(matches!(server.reload_if_changed(), Err(TlsError::Io { .. })));

    ca.issue_with("server", |params| params.not_after = date_time_ymd(2001, 1, 1));
    let error = server.reload_if_changed().unwrap_err().to_string();
    assert!(error.contains("server.pem") && error.contains("expired"), "{error}");
    ca.issue_with("server", |params| params.not_before = date_time_ymd(2999, 1, 1));
    let error = server.reload_if_changed().unwrap_err().to_string();
    assert!(error.contains("not yet"), "{error}");
    assert!(is_as_before());

    ca.issue("server");
    assert!(server.reload_if_changed().unwrap());
    assert!(!is_as_before());
}

/// Kubernetes has the files in a folder behind two symbolic links, and replaces the second one.
#[test]
fn a_replaced_symbolic_link_is_a_change() {
    let ca = Authority::new();
    let folder = |name: &str| {
        fs::create_dir(ca.path(name)).unwrap();
        // The same length, and perhaps the same time: another inode.
        fs::copy(ca.issue("server"), ca.path(name).join("tls.pem")).unwrap();
    };
    let link = |target: &str| {
        let _ = fs::remove_file(ca.path("..data_tmp"));
        symlink(target, ca.path("..data_tmp")).unwrap();
        fs::rename(ca.path("..data_tmp"), ca.path("..data")).unwrap();
    };
    folder("first");
    folder("second");
    link("first");
    symlink(Path::new("..data").join("tls.pem"), ca.path("tls.pem")).unwrap();
    let options = ServerTlsOptions::new(ca.store("tls.pem")).trust_store(ca.store("ca.pem"));
    let server = ServerTls::load(options).unwrap();
    let before = server.config();
    link("second");
    assert!(server.reload_if_changed().unwrap());
    assert!(!std::sync::Arc::ptr_eq(&before, &server.config()));
    assert!(
        name_at(&server, &ca, &{
            ca.issue("client");
            "client.pem".to_owned()
        })
        .is_some()
    );
}
