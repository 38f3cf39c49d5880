//! The contract of ZooKeeper's official image: its directories, and its variables with their
//! defaults (`docker-entrypoint.sh` and `Dockerfile` of its versions 3.8 and 3.9).

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::ContainerError;

/// The port that the image declares for clients.
pub(super) const CLIENT_PORT: u16 = 2181;

/// Where a server that has no line of its own would be.
const DEFAULT_SERVER: &str = "server.1=localhost:2888:3888;2181";

/// The lines of the generated file: each key with its variable and default.
const KEYS: [(&str, &str, &str); 8] = [
    ("tickTime", "ZOO_TICK_TIME", "2000"),
    ("initLimit", "ZOO_INIT_LIMIT", "5"),
    ("syncLimit", "ZOO_SYNC_LIMIT", "2"),
    ("autopurge.snapRetainCount", "ZOO_AUTOPURGE_SNAPRETAINCOUNT", "3"),
    ("autopurge.purgeInterval", "ZOO_AUTOPURGE_PURGEINTERVAL", "0"),
    ("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60"),
    ("standaloneEnabled", "ZOO_STANDALONE_ENABLED", "true"),
    ("admin.enableServer", "ZOO_ADMINSERVER_ENABLED", "true"),
];

/// What the environment says. It has no `Debug`, because the values may be secret.
pub(super) struct Image {
    pub(super) conf_dir: PathBuf,
    data_dir: PathBuf,
    data_log_dir: PathBuf,
    /// The directories that the environment names, which are those of the image.
    pub(super) own_dirs: Vec<PathBuf>,
    /// The values of [`KEYS`].
    values: Vec<String>,
    servers: Vec<String>,
    four_letter_words: Option<String>,
    extra: Vec<String>,
    my_id: String,
    /// The words of both variables; later ones override earlier ones.
    pub(super) jvm_flags: Vec<String>,
}

impl Image {
    pub(super) fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// An empty variable counts as one that is not set.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let or = |name, default: &str| set(name).unwrap_or_else(|| default.to_owned());
        let words = |name| -> Vec<String> {
            set(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        // As `zkServer.sh`.
        let autocreate = set("ZOO_DATADIR_AUTOCREATE_DISABLE")
            .map(|_| "-Dzookeeper.datadir.autocreate=false".to_owned());
        let own = ["ZOO_DATA_DIR", "ZOO_DATA_LOG_DIR", "ZOO_LOG_DIR"];
        let mut servers = words("ZOO_SERVERS");
        if servers.is_empty() {
            servers.push(DEFAULT_SERVER.to_owned());
        }
        Self {
            conf_dir: or("ZOO_CONF_DIR", "/conf").into(),
            data_dir: or("ZOO_DATA_DIR", "/data").into(),
            data_log_dir: or("ZOO_DATA_LOG_DIR", "/datalog").into(),
            own_dirs: own.into_iter().filter_map(set).map(PathBuf::from).collect(),
            values: KEYS.iter().map(|(_, name, default)| or(name, default)).collect(),
            servers,
            four_letter_words: set("ZOO_4LW_COMMANDS_WHITELIST"),
            extra: words("ZOO_CFG_EXTRA"),
            my_id: or("ZOO_MY_ID", "1"),
            jvm_flags: [
                autocreate.into_iter().collect(),
                words("SERVER_JVMFLAGS"),
                words("JVMFLAGS"),
            ]
            .concat(),
        }
    }

    /// The file that the entry point of the official image writes.
    ///
    /// # Errors
    ///
    /// [`ContainerError::Ensemble`] if there is more than one server.
    pub(super) fn zoo_cfg(&self) -> Result<String, ContainerError> {
        let servers = self.servers.iter().filter(|line| line.starts_with("server.")).count();
        if servers > 1 {
            return Err(ContainerError::Ensemble(servers));
        }
        let mut text = String::new();
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "{key}={value}").expect("a string can be written to");
        };
        line("dataDir", &self.data_dir.display());
        line("dataLogDir", &self.data_log_dir.display());
        for ((key, ..), value) in KEYS.iter().zip(&self.values) {
            line(key, value);
        }
        let words = self.four_letter_words.iter();
        let words = words.map(|words| format!("4lw.commands.whitelist={words}"));
        for line in self.servers.iter().cloned().chain(words).chain(self.extra.iter().cloned()) {
            text.push_str(&line);
            text.push('\n');
        }
        Ok(text)
    }

    /// Writes the number of the server, unless it is there. Only an ensemble needs it, which may take
    /// the data over.
    pub(super) fn write_myid(&self) -> Result<(), ContainerError> {
        let path = self.data_dir.join("myid");
        if path.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.data_dir).map_err(|source| ContainerError::NoDataDirectory {
            path: self.data_dir.clone(),
            source,
        })?;
        let written = fs::write(&path, format!("{}\n", self.my_id));
        written.map_err(|source| ContainerError::MyId { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(variables: &[(&str, &str)]) -> Image {
        Image::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_data_directory_that_cannot_be_created_is_told_with_its_cure() {
        let error = image(&[("ZOO_DATA_DIR", "/dev/null/data")]).write_myid().unwrap_err();
        let expected = "cannot create the data directory /dev/null/data: ";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(
            error.to_string().contains("; mount a volume there, or create it in the image"),
            "{error}"
        );
    }

    #[test]
    fn the_file_is_that_of_the_official_image() {
        let text = image(&[]).zoo_cfg().unwrap();
        let expected = "dataDir=/data\n\
             dataLogDir=/datalog\n\
             tickTime=2000\n\
             initLimit=5\n\
             syncLimit=2\n\
             autopurge.snapRetainCount=3\n\
             autopurge.purgeInterval=0\n\
             maxClientCnxns=60\n\
             standaloneEnabled=true\n\
             admin.enableServer=true\n\
             server.1=localhost:2888:3888;2181\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_variable_counts() {
        let variables = [
            ("ZOO_DATA_DIR", "/d"),
            ("ZOO_DATA_LOG_DIR", "/l"),
            ("ZOO_TICK_TIME", "1000"),
            ("ZOO_INIT_LIMIT", "7"),
            ("ZOO_SYNC_LIMIT", "8"),
            ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "9"),
            ("ZOO_AUTOPURGE_PURGEINTERVAL", "24"),
            ("ZOO_MAX_CLIENT_CNXNS", "0"),
            ("ZOO_STANDALONE_ENABLED", "false"),
            ("ZOO_ADMINSERVER_ENABLED", "false"),
            ("ZOO_SERVERS", "server.5=zoo5:2888:3888;2281"),
            ("ZOO_4LW_COMMANDS_WHITELIST", "ruok, mntr"),
            ("ZOO_CFG_EXTRA", "metricsProvider.httpPort=7000 snapCount=50"),
        ];
        let text = image(&variables).zoo_cfg().unwrap();
        let expected = "dataDir=/d\n\
             dataLogDir=/l\n\
             tickTime=1000\n\
             initLimit=7\n\
             syncLimit=8\n\
             autopurge.snapRetainCount=9\n\
             autopurge.purgeInterval=24\n\
             maxClientCnxns=0\n\
             standaloneEnabled=false\n\
             admin.enableServer=false\n\
             server.5=zoo5:2888:3888;2281\n\
             4lw.commands.whitelist=ruok, mntr\n\
             metricsProvider.httpPort=7000\n\
             snapCount=50\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn directories_are_not_created_if_a_variable_says_so() {
        assert!(image(&[]).jvm_flags.is_empty());
        let disabled = image(&[("ZOO_DATADIR_AUTOCREATE_DISABLE", "1"), ("JVMFLAGS", "-Xmx1g")]);
        assert_eq!(disabled.jvm_flags, ["-Dzookeeper.datadir.autocreate=false", "-Xmx1g"]);
    }

    #[test]
    fn an_ensemble_is_refused() {
        let servers = "server.1=a:2888:3888;2181 server.2=b:2888:3888;2181\n server.3=c:1:2";
        let error = image(&[("ZOO_SERVERS", servers)]).zoo_cfg().unwrap_err().to_string();
        assert!(error.starts_with("ZOO_SERVERS names 3 servers"), "{error}");
    }

    #[test]
    fn only_directories_of_the_environment_are_the_images_own() {
        assert_eq!(image(&[]).own_dirs, Vec::<PathBuf>::new());
        let own = image(&[("ZOO_DATA_DIR", "/data"), ("ZOO_LOG_DIR", "")]).own_dirs;
        assert_eq!(own, [PathBuf::from("/data")]);
    }
}
