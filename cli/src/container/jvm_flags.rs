//! The properties that users of the official image pass to its Java virtual machine.

use std::path::Path;

use crate::zoo_cfg::{ZooCfg, ZooCfgError, written};

/// What messages call the variables.
const NAME: &str = "SERVER_JVMFLAGS and JVMFLAGS";

/// Properties that ZooKeeper reads without a prefix of its own.
const UNPREFIXED: [&str; 4] = [
    "jute.maxbuffer",
    "readonlymode.enabled",
    "znode.container.",
    "java.security.auth.login.config",
];

/// The settings in the words of the variables. What only a Java virtual machine understands is left
/// out.
///
/// # Errors
///
/// [`ZooCfgError`] if a property has a bad value.
pub(super) fn zoo_cfg(flags: &[String]) -> Result<ZooCfg, ZooCfgError> {
    let text = properties(flags);
    if text.is_empty() {
        return Ok(ZooCfg::default());
    }
    ZooCfg::properties(Path::new(NAME), &text)
}

/// The properties that concern ZooKeeper, as lines of a properties file.
fn properties(flags: &[String]) -> String {
    let mut text = String::new();
    for flag in flags {
        let Some(property) = flag.strip_prefix("-D").filter(|property| concerns(property)) else {
            continue;
        };
        let (key, value) = property.split_once('=').unwrap_or((property, ""));
        text.push_str(&written(key, value));
        text.push('\n');
    }
    text
}

fn concerns(property: &str) -> bool {
    property.starts_with("zookeeper.") || UNPREFIXED.iter().any(|name| property.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn properties_of_zookeeper_become_settings() {
        let flags = words(
            "-Xmx1g -Dzookeeper.4lw.commands.whitelist=ruok,mntr -Dcom.sun.management.jmxremote \
             -Djute.maxbuffer=2000000 -Dzookeeper.skipACL=yes -Dzookeeper.skipACL=no",
        );
        let options = zoo_cfg(&flags).unwrap().options;
        assert_eq!(options.four_letter_words.as_deref(), Some("ruok,mntr"));
        assert_eq!(options.jute_maxbuffer, Some(2_000_000));
        assert_eq!(options.access.skip_acl, Some(false));
    }

    #[test]
    fn values_keep_their_characters() {
        let flags = words(r"-Dzookeeper.a=C:\x#y=z! -Dzookeeper.b");
        let text = properties(&flags);
        assert_eq!(text, "zookeeper.a=C:\\\\x#y=z!\nzookeeper.b=\n");
    }

    #[test]
    fn what_is_for_java_alone_is_left_out() {
        assert_eq!(properties(&words("-Xmx1g -server -Duser.dir=/tmp -XX:+UseZGC")), "");
        let none = zoo_cfg(&[]).unwrap();
        assert!(none.remarks.is_empty());
    }

    #[test]
    fn a_bad_value_names_the_variables() {
        let error = zoo_cfg(&words("-Djute.maxbuffer=much")).unwrap_err().to_string();
        assert!(error.contains("SERVER_JVMFLAGS and JVMFLAGS:1: jute.maxbuffer"), "{error}");
    }
}
