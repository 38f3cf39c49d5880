//! What of a file may be shown to administrators: all of it but passwords and their hashes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{bare, properties, written};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// Whether the value of a key is secret. Paths of files with passwords are not.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_path = key.ends_with("passwordpath");
    !is_path
        && ["password", "passwd", "superdigest", "secret"].iter().any(|word| key.contains(word))
}

/// What ZooKeeper has as Java properties, with secrets hidden.
pub(super) fn java_properties(text: &str) -> BTreeMap<String, String> {
    let written = properties::parse(text).filter_map(Result::ok);
    written.filter_map(|it| Some((property(&it.key)?, value(&it.key, &it.value)))).collect()
}

/// The value of a key, if it may be shown.
fn value(key: &str, value: &str) -> String {
    if is_secret(key) { HIDDEN.to_owned() } else { value.to_owned() }
}

/// The text of a file with its secrets hidden: of each property with one only the key is there.
pub(super) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut secrets = secrets(text).peekable();
    // The end of the last line begins no other.
    let text = text.strip_suffix('\n').unwrap_or(text);
    for (number, line) in (1..).zip(properties::natural_lines(text)) {
        while secrets.next_if(|(lines, _)| *lines.end() < number).is_some() {}
        match secrets.peek() {
            Some((lines, _)) if *lines.start() > number => shown.push_str(line),
            Some((lines, key)) if *lines.start() == number => {
                shown.push_str(&written(key, HIDDEN));
            }
            // A line that continues a secret.
            Some(_) => continue,
            None => shown.push_str(line),
        }
        shown.push('\n');
    }
    shown
}

/// The lines of the secrets, with their keys. What cannot be read may be one.
fn secrets(text: &str) -> impl Iterator<Item = (RangeInclusive<usize>, String)> {
    properties::parse_lines(text).filter_map(|(lines, property)| match property {
        Ok(property) => is_secret(&property.key).then_some((lines, property.key)),
        Err(_) => Some((lines, String::new())),
    })
}

/// The name of the Java property that ZooKeeper makes of a key; `None` for the keys that it reads
/// itself (`QuorumPeerConfig.parseProperties`).
fn property(key: &str) -> Option<String> {
    let is_own = OWN_KEYS.split_whitespace().any(|own| match own.ends_with('.') {
        true => key.starts_with(own),
        false => key == own,
    });
    (!is_own).then(|| format!("zookeeper.{}", bare(key)))
}

const OWN_KEYS: &str = "dataDir dataLogDir clientPort clientPortAddress secureClientPort \
    secureClientPortAddress observerMasterPort clientPortListenBacklog tickTime maxClientCnxns \
    minSessionTimeout maxSessionTimeout initLimit syncLimit connectToLearnerMasterLimit electionAlg \
    quorumListenOnAllIPs peerType syncEnabled dynamicConfigFile autopurge.snapRetainCount \
    autopurge.purgeInterval standaloneEnabled reconfigEnabled sslQuorum portUnification \
    sslQuorumReloadCertFiles localSessionsEnabled localSessionsUpgradingEnabled oraclePath version \
    server. group. weight. quorum.auth. quorum.cnxn.threads.size jvm.pause. metricsProvider. \
    multiAddress.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let file = "# password=no secret\ndataDir=/x\nssl.keyStore.password=se\\\n  cret\n\
                    ssl.keyStore.passwordPath=/p\n zookeeper.DigestAuthenticationProvider.superDigest : \
                    super:hash=\nSASLAuthenticationProvider.superPassword pw\nlast=1\n";
        let shown = text(file);
        assert_eq!(
            shown,
            "# password=no secret\ndataDir=/x\nssl.keyStore.password=***\n\
             ssl.keyStore.passwordPath=/p\nzookeeper.DigestAuthenticationProvider.superDigest=***\n\
             SASLAuthenticationProvider.superPassword=***\nlast=1\n"
        );
        assert_eq!(value("ssl.trustStore.password", "x"), "***");
        assert_eq!(value("ssl.trustStore.passwordPath", "/x"), "/x");
    }

    /// Only the parser of the file knows where a key ends and what it spells.
    #[test]
    fn secrets_are_hidden_however_they_are_written() {
        for secret in [
            "a=1\rssl.keyStore.password=SECRET\rb=2",
            "a=1\nssl.keyStore.pass\\u0077ord=SECRET\nb=2",
            "a=1\nssl.keyStore.pass\\\n   word=SECRET\nb=2",
            "a=1\r\nssl.keyStore.password=\\\r\n  SEC\\\r\n# RET\r\nb=2\r\n",
            "a=1\nssl.keyStore.p\\assword:SECRET\nb=2",
            "a=1\n\u{c}ssl.keyStore.password\u{c}SECRET\\\\\nb=2",
        ] {
            assert_eq!(text(secret), "a=1\nssl.keyStore.password=***\nb=2\n", "{secret:?}");
        }
        let properties = "# x \\\npassword=1\n\\\npassword=2";
        assert_eq!(text(properties), "# x \\\npassword=***\n\\\npassword=***\n");
        assert_eq!(text("password=\\u12\na=1\n\n"), "=***\na=1\n\n");
        assert_eq!(text(""), "\n");
    }

    #[test]
    fn keys_become_properties_as_in_zookeeper() {
        assert_eq!(property("snapCount").as_deref(), Some("zookeeper.snapCount"));
        assert_eq!(property("zookeeper.snapCount").as_deref(), Some("zookeeper.snapCount"));
        assert_eq!(property("dataDir"), None);
        assert_eq!(property("metricsProvider.httpPort"), None);
        assert_eq!(property("server.1"), None);
    }
}
