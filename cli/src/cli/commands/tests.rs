use std::time::Duration;

use zoolet_core::StatsTrack;
use zoolet_protocol::Expect;

use super::*;

fn parse(line: &str) -> Result<Command, Failure> {
    Command::parse(&super::super::line::words(line)?)
}

fn wrong_of(line: &str) -> String {
    match parse(line) {
        Err(Failure::Usage(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_definitions_are_in_order() {
    Line::command().debug_assert();
}

#[test]
fn every_command_has_an_example_that_is_parsed() {
    let all = Command::all();
    let commands = all.get_subcommands().filter(|command| command.get_name() != "help");
    for command in commands {
        let name = command.get_name();
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(text.starts_with("Example"), "{name}");
        for example in text.lines().skip(1) {
            let example = example.split("   ").find(|part| !part.is_empty()).unwrap().trim();
            assert!(example.starts_with(name), "{name}: {example}");
            assert!(parse(example).is_ok(), "{name}: {example}: {:?}", parse(example));
        }
    }
}

#[test]
fn options_may_stand_anywhere_and_together() {
    for line in ["ls -s -w /a", "ls -sw /a", "ls /a -w --stat"] {
        let ls = parse(line).unwrap();
        assert!(matches!(ls, Command::Ls { stat: true, watch: true, recursive: false, path }
            if path == "/a"));
    }
    assert!(matches!(parse("ls").unwrap(), Command::Ls { path, .. } if path == "/"));
    assert!(matches!(parse("ls /a/b//").unwrap(), Command::Ls { path, .. } if path == "/a/b"));
    let set = parse("set -v 3 /a -17").unwrap();
    assert!(matches!(set, Command::Set { set, .. }
        if set.data == "-17" && set.version() == Expect::Exactly(3)));
    let set = parse("set /a -- --data").unwrap();
    assert!(matches!(set, Command::Set { set, .. } if set.data == "--data"));
    let error = parse("create -t 5x /a").unwrap_err().to_string();
    assert!(
        error.contains("milliseconds from 1 to 1099511627775, or a time with units"),
        "{error}"
    );
    let create = parse("create -t 1500 /a").unwrap();
    assert!(matches!(create, Command::Create { create, .. }
        if create.ttl == Some(Duration::from_millis(1500)) && create.data.is_empty()));
}

#[test]
fn options_are_those_of_zkcli() {
    for line in [
        "create -s -e /a data world:anyone:r",
        "create -c /a",
        "create -s -t 600000 /a",
        "delete -v 5 /a",
        "deleteall /a -b 2",
        "rmr /a",
        "set -s -v 1 /a data",
        "set -b /a aGVsbG8=",
        "get -s -w /a",
        "get -b /a",
        "get -x /a",
        "stat -w /a",
        "ls -s -w -R /a",
        "getAcl -s /a",
        "setAcl -s -v 1 /a world:anyone:r",
        "setAcl -R -v 1 /a world:anyone:r",
        "addauth digest a:b",
        "addWatch /a",
        "addWatch -m PERSISTENT /a",
        "addWatch -m persistent_recursive /a",
        "removewatches /a -c",
        "removewatches /a -d -l",
        "removewatches /a -a",
        "removewatches -l /a",
        "getEphemerals",
        "getEphemerals /a",
        "getAllChildrenNumber /a",
        "setquota -n 60 /a",
        "setquota -B 1000 /a",
        "listquota /a",
        "delquota /a",
        "delquota -N /a",
        "config -c -w -s",
        "reconfig -remove 1",
        "reconfig -s -v 100000000 -add server.4=a:1:2;3 -remove 1,2",
        "reconfig -members server.1=a:1:2;3",
        "reconfig -file members.txt",
        "connect",
        "connect a:1",
        "close",
        "history",
        "redo 3",
        "redo -1",
        "printwatches",
        "printwatches off",
        "sync /a",
        "version",
        "whoami",
        "quit",
    ] {
        assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
    }
}

#[test]
fn a_quota_has_one_limit_in_its_range() {
    let limit = |line: &str| match parse(line) {
        Ok(Command::Setquota { quota, .. }) => quota.limit().unwrap(),
        other => panic!("{line}: {other:?}"),
    };
    let (hard, soft) = (limit("setquota -B 0 /a"), limit("setquota -n 1 /a"));
    assert_eq!((hard.key, hard.value), (StatsTrack::BYTE_HARD_LIMIT, 0));
    assert_eq!((soft.key, soft.value), (StatsTrack::COUNT, 1));
    assert!(wrong_of("setquota -n 0 /a").contains("from 1 to 2147483647"));
    assert!(wrong_of("setquota -N 2147483648 /a").contains("from 1 to 2147483647"));
    assert!(wrong_of("setquota -b -1 /a").contains("from 0 up"));
    assert!(wrong_of("setquota /a").contains("required"));
    assert!(wrong_of("setquota -n 1 -b 2 /a").contains("cannot be used with"));
}

#[test]
fn a_reconfiguration_names_members() {
    for line in ["reconfig", "reconfig -s", "reconfig -v 1"] {
        assert!(wrong_of(line).contains("required"), "{line}: {}", wrong_of(line));
    }
    assert!(wrong_of("reconfig -members x -add y").contains("cannot be used with"));
    assert!(wrong_of("reconfig -v x -add y").contains("must be a hexadecimal number"));
}

#[test]
fn stat_without_a_path_is_the_four_letter_word() {
    assert!(matches!(parse("stat"), Ok(Command::Stat { path: None, .. })));
    assert!(wrong_of("stat -w").contains("<PATH>"), "{}", wrong_of("stat -w"));
    for word in ["srvr", "mntr", "stmk 0x132", "stmk -1"] {
        assert!(matches!(parse(word), Ok(Command::Word(_))), "{word}");
        assert!(!parse(word).unwrap().needs_session(), "{word}");
    }
    assert!(parse("stat /a").unwrap().needs_session());
}

#[test]
fn what_is_nearly_right_is_answered_with_what_is_right() {
    assert_eq!(wrong_of("gte /a"), "there is no command \"gte\"; did you mean get?");
    assert_eq!(wrong_of("getacl /a"), "there is no command \"getacl\"; did you mean getAcl?");
    assert_eq!(wrong_of("exti"), "there is no command \"exti\"; did you mean exit?");
    assert_eq!(wrong_of("setQuota"), "there is no command \"setQuota\"; did you mean setquota?");
    assert_eq!(wrong_of("mntt"), "there is no command \"mntt\"; did you mean mntr?");
    assert_eq!(wrong_of("help gte"), "there is no command \"gte\"; did you mean get?");
    assert!(
        wrong_of("help frobnicate").starts_with("there is no command \"frobnicate\"; there are")
    );
    let unknown = wrong_of("frobnicate");
    assert!(unknown.contains("deleteall, rmr, getAcl, acl"), "{unknown}");
    assert!(unknown.ends_with("quit, exit, help"), "four-letter words are left out: {unknown}");
    assert!(wrong_of("ls --recursiv /").contains("'--recursive'"));
    assert!(wrong_of("get").contains("<PATH>"));
    assert!(wrong_of("get a").contains("does not begin with /"));
    assert!(wrong_of("create -c -e /a").contains("cannot be used with"));
    assert!(wrong_of("setAcl /a anyone").contains("SCHEME:ID:PERMISSIONS"));
    assert!(!wrong_of("get").contains("--help"), "{}", wrong_of("get"));
}

#[test]
fn help_is_no_failure_of_the_words() {
    for line in ["help", "help multi", "ls --help", "help mntr"] {
        assert!(matches!(parse(line), Err(Failure::Help(_))), "{line}");
    }
    let Err(Failure::Help(text)) = parse("help") else { panic!("it is help") };
    for name in ["rmr", "setquota", "mntr"] {
        assert!(text.contains(name), "{name}: {text}");
    }
}
