//! Flags and files, and the configuration that they make.

use clap::{Args, Command, FromArgMatches};

use super::*;
use zoolet_server::storage::{Compression, Durability, StorageConfig};

fn command() -> Command {
    ServerOptions::augment_args(Command::new("zoolet").no_binary_name(true))
}

/// The options of these flags, which override those of `file`.
fn over(mut file: ServerOptions, flags: &[&str]) -> ServerOptions {
    let matches = command().try_get_matches_from(flags).unwrap();
    file.update_from_arg_matches(&matches).unwrap();
    file
}

fn flags(flags: &[&str]) -> ServerOptions {
    over(ServerOptions::default(), flags)
}

const SHA1_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
const SHA256_DIGEST: &str = "super:oeWbfO1nNLU+ptYJb5F+cESMRfSdXaCVHU1nC0TBL+Q=";

#[test]
fn nothing_chosen_is_the_default() {
    let config = flags(&[]).config().unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    assert!(config.settings.ttl_znodes);
}

#[test]
fn flags_reach_the_configuration() {
    let config = flags(&[
        "--client-port-listen-backlog=9",
        "--client-tcp-keep-alive",
        "--tick-time=11",
        "--min-session-timeout=12",
        "--max-session-timeout=13",
        "--max-client-cnxns=14",
        "--max-cnxns=15",
        "--jute-maxbuffer=0x10",
        "--enforce-quota",
        "--skip-acl",
        &format!("--super-digest={SHA256_DIGEST}"),
        "--digest-alg=sha-256",
        "--enforce-auth-enabled",
        "--enforce-auth-schemes=digest, ip",
        "--extended-types-enabled=false",
        "--znode-container-check-interval-ms=17",
        "--znode-container-max-per-minute=18",
        "--znode-container-max-never-used-interval-ms=19",
        "--4lw-commands-whitelist=ruok, mntr",
        "--reconfig-enabled",
    ])
    .config()
    .unwrap();
    let expected = Config {
        listen: None,
        tick_time_ms: 11,
        min_session_timeout_ms: Some(12),
        max_session_timeout_ms: Some(13),
        max_client_connections: 14,
        max_connections: 15,
        listen_backlog: Some(9),
        frame_bytes_max: 16,
        tcp_keep_alive: true,
        four_letter_words: "ruok,mntr".parse().unwrap(),
        enforce_auth: EnforceAuth::Schemes(vec!["digest".to_owned(), "ip".to_owned()]),
        container_check_interval: Duration::from_millis(17),
        container_max_per_minute: 18,
        container_max_never_used_ms: 19,
        storage: None,
        wall_time: Config::default().wall_time,
        settings: Settings {
            ttl_znodes: false,
            enforce_quota: true,
            skip_acl: true,
            super_digest: Some(SHA256_DIGEST.to_owned()),
            digest_algorithm: DigestAlgorithm::Sha256,
            digest_scheme: true,
            reconfig_enabled: true,
        },
    };
    assert_eq!(format!("{config:?}"), format!("{expected:?}"));
}

#[test]
fn flags_override_a_file_and_leave_the_rest() {
    let file = ServerOptions {
        tick_time: Some(1),
        max_client_cnxns: Some(2),
        enforce_quota: Some(true),
        skip_acl: Some(true),
        readonly_mode: Some(true),
        require_sasl: Some(false),
        ..ServerOptions::default()
    };
    let expected = ServerOptions { tick_time: Some(3), enforce_quota: Some(false), ..file.clone() };
    assert_eq!(over(file, &["--tick-time", "3", "--enforce-quota", "false"]), expected);
}

#[test]
fn a_truth_may_be_left_out_or_follow() {
    for (args, chosen) in [
        (["--enforce-quota"].as_slice(), true),
        (&["--enforce-quota=true"], true),
        (&["--enforce-quota", "FALSE"], false),
        (&["--enforce-quota", "--tick-time=1"], true),
    ] {
        assert_eq!(flags(args).enforce_quota, Some(chosen), "{args:?}");
    }
    assert_eq!(flags(&["--skip-acl"]).skip_acl, Some(true));
    assert_eq!(flags(&["--skip-acl=no"]).skip_acl, Some(false));
}

#[test]
fn defaults_can_be_asked_for_by_number() {
    let config = flags(&[
        "--min-session-timeout",
        "-1",
        "--max-session-timeout",
        "-1",
        "--client-port-listen-backlog",
        "-1",
    ])
    .config()
    .unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

#[test]
fn where_to_listen() {
    let file = ServerOptions {
        client_port: Some(1),
        client_port_address: Some("::1".to_owned()),
        ..ServerOptions::default()
    };
    let cases = [
        (ServerOptions::default(), [].as_slice(), Ok("127.0.0.1 2181")),
        (ServerOptions::default(), &["--listen", "localhost:0"], Ok("localhost 0")),
        (ServerOptions::default(), &["--client-port", "5"], Ok("0.0.0.0 5")),
        (
            ServerOptions::default(),
            &["--client-port-address", "a"],
            Err(Contradiction::NoClientPort),
        ),
        (file.clone(), &[], Ok("::1 1")),
        (file.clone(), &["--client-port", "5"], Ok("::1 5")),
        (file.clone(), &["--client-port-address", "a"], Ok("a 1")),
        (file, &["--listen", "b:6"], Ok("b 6")),
    ];
    for (file, args, expected) in cases {
        let listen =
            over(file, args).listen().map(|HostPort { host, port }| format!("{host} {port}"));
        assert_eq!(listen, expected.map(str::to_owned), "{args:?}");
    }
}

#[test]
fn contradictions() {
    let options = [
        (
            ServerOptions { require_sasl: Some(true), ..ServerOptions::default() },
            Contradiction::SaslRequired,
        ),
        (
            flags(&["--super-digest", SHA1_DIGEST, "--digest-alg", "SHA3-256"]),
            Contradiction::SuperDigestOfOtherAlgorithm,
        ),
        (flags(&["--super-digest", SHA256_DIGEST]), Contradiction::SuperDigestOfOtherAlgorithm),
        (flags(&["--enforce-auth-enabled"]), ConfigError::NoAuthSchemes.into()),
        (
            flags(&["--enforce-auth-enabled", "--enforce-auth-schemes=x509"]),
            ConfigError::UnknownAuthScheme("x509".to_owned()).into(),
        ),
        (
            flags(&["--max-session-timeout=1", "--tick-time=10"]),
            ConfigError::SessionTimeouts { min: 20, max: 1 }.into(),
        ),
    ];
    for (options, expected) in options {
        assert_eq!(options.config().unwrap_err(), expected, "{options:?}");
    }
}

#[test]
fn schemes_without_enforcement_are_remarked_on() {
    let schemes = "--enforce-auth-schemes=digest";
    assert!(flags(&[schemes]).remark().is_some());
    assert!(flags(&[schemes, "--enforce-auth-enabled=false"]).remark().is_some());
    assert!(flags(&[schemes, "--enforce-auth-enabled"]).remark().is_none());
    assert!(flags(&[]).remark().is_none());
    assert_eq!(flags(&[schemes]).config().unwrap().enforce_auth, EnforceAuth::Off);
}

#[test]
fn read_only_mode_allows_isro() {
    let mut options = flags(&["--4lw-commands-whitelist=ruok"]);
    assert!(!options.config().unwrap().four_letter_words.contains("isro"));
    options.readonly_mode = Some(true);
    let words = options.config().unwrap().four_letter_words;
    assert!(words.contains("isro") && words.contains("ruok") && !words.contains("mntr"));
}

#[test]
fn flags_about_files_reach_the_configuration() {
    let config = flags(&[
        "--data-dir=/data",
        "--log-dir=/logs",
        "--durability=buffered",
        "--snap-count=1",
        "--snap-size-limit-in-kb=-1",
        "--txn-log-size-limit-in-kb=7",
        "--pre-alloc-size=8",
        "--snapshot-compression-method=gz",
        "--autopurge-snap-retain-count=9",
        "--snapshot-trust-empty",
    ]);
    let expected = StorageConfig {
        data_log_dir: Some("/logs".into()),
        durability: Durability::Buffered,
        snap_count: 2,
        snap_size_limit_bytes: None,
        log_size_limit_bytes: Some(7 << 10),
        allocate_bytes: 8 << 10,
        snapshot_compression: Compression::Gzip,
        snap_retain_count: Some(9),
        trust_empty_snapshot: true,
        ..StorageConfig::at("/data")
    };
    let storage = config.config().unwrap().storage.unwrap();
    assert_eq!(format!("{storage:?}"), format!("{expected:?}"));
}

#[test]
fn what_is_to_survive_needs_a_place() {
    assert_eq!(flags(&["--durability=synced"]).config().unwrap_err(), Contradiction::NoDataDir);
    let nothing = flags(&["--durability=memory", "--data-dir=/data"]).config().unwrap();
    assert!(nothing.storage.is_none());
    assert!(flags(&["--snap-count=7"]).remark().unwrap().contains("dataDir"));
    assert_eq!(flags(&["--snap-count=7", "--data-dir=/data"]).remark(), None);
    let kept = flags(&["--data-dir=/data", "--autopurge-purge-interval=0"]).config().unwrap();
    assert_eq!(kept.storage.unwrap().snap_retain_count, None, "purging was turned off");
}
