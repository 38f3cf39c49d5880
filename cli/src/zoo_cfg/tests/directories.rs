//! What a file says, or does not say, of the directories and the files in them.

use super::*;

#[test]
fn a_misspelt_directory_stops_the_start() {
    for (line, similar) in
        [("datadir", "dataDir"), ("dataDri", "dataDir"), ("datalogdir", "dataLogDir")]
    {
        let error = read(&format!("clientPort=1\n{line}=/x")).unwrap_err();
        let told = format!("zoo.cfg:2: unknown key \"{line}\"; did you mean {similar}?");
        assert!(error.contains(&told), "{error}");
    }
}

#[test]
fn a_key_that_resembles_a_directory_that_is_given_is_another_property() {
    let given = "dataDir=/x\ndataLogDir=/y\nclientPort=1";
    for (line, similar) in [
        ("dataDir.old=/z", "dataDir"),
        ("dataDigest=yes", "dataDir"),
        ("dataLogDirSize=1", "dataLogDir"),
    ] {
        let key = line.split_once('=').unwrap().0;
        let told = format!("zoo.cfg:1: unknown key \"{key}\"; did you mean {similar}?");
        assert_eq!(remarks(&format!("{line}\n{given}")), [told], "{line}");
    }
    for line in ["data_dir=/z", "datalogdir=/z"] {
        let error = read(&format!("{line}\n{given}")).unwrap_err();
        assert!(error.contains("the data would be elsewhere"), "{error}");
    }
    // A file needs no directory of the logs.
    let told = "zoo.cfg:1: unknown key \"dataLogDirSize\"; did you mean dataLogDir?";
    assert_eq!(remarks("dataLogDirSize=1\ndataDir=/x"), [told]);
}

#[test]
fn a_misspelt_directory_does_not_matter_beside_its_option() {
    let storage = |data_dir: Option<&str>, data_log_dir: Option<&str>| StorageOptions {
        data_dir: data_dir.map(Into::into),
        data_log_dir: data_log_dir.map(Into::into),
        ..StorageOptions::default()
    };
    let (data, logs) = (storage(Some("/x"), None), storage(None, Some("/y")));
    for (line, given, other) in
        [("datadir", &data, &logs), ("dataDri", &data, &logs), ("datalogdir", &logs, &data)]
    {
        let text = format!("clientPort=1\n{line}=/z");
        let remarks = read_beside(&text, given).unwrap().remarks;
        let told = format!("zoo.cfg:2: unknown key \"{line}\"; did you mean ");
        assert!(remarks.len() == 1 && remarks[0].starts_with(&told), "{remarks:?}");
        read_beside(&text, other).unwrap_err();
    }
}

#[test]
fn old_files_stay_unless_the_file_says_otherwise() {
    let whole = |text: &str| ZooCfg::default().parse_over(Path::new("zoo.cfg"), text).unwrap();
    for (text, purge) in [
        ("dataDir=/d", Purge::Never),
        ("dataDir=/d\nautopurge.snapRetainCount=5", Purge::Never),
        ("dataDir=/d\nautopurge.purgeInterval=24", Purge::AfterSnapshots),
    ] {
        let ZooCfg { options, remarks } = whole(text);
        assert_eq!(options.storage.autopurge_purge_interval, Some(purge), "{text}");
        assert_eq!(remarks, [""; 0], "{text}");
    }
    let ZooCfg { options, remarks } = whole("clientPort=1");
    assert_eq!(options.storage, StorageOptions::default());
    assert!(remarks[0].starts_with("zoo.cfg: without dataDir"), "{remarks:?}");
}
