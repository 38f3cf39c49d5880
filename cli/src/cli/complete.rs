//! Completion: of commands, of their options, and of the tree.

use super::arguments::znode;
use super::commands::Command;
use super::line::Typed;
use super::tree::child;

/// Completes the last word of a line: its candidates, and where the word starts. `children` lists the
/// children of a znode.
pub(super) fn complete(line: &str, children: impl Fn(&str) -> Vec<String>) -> (usize, Vec<String>) {
    let Typed { before, start, word } = Typed::read(line);
    let mut found = match before.as_slice() {
        [] => commands(),
        [help] if help == "help" => commands(),
        [command, ..] if word.starts_with('-') => options(command),
        [command, .., last] | [command @ last] => match values(command, last) {
            Some(values) => values,
            None => paths(&word, children),
        },
    };
    found.retain(|candidate| candidate.starts_with(&word));
    found.sort_unstable();
    (start, found.iter().map(|candidate| shell_words::quote(candidate).into_owned()).collect())
}

fn commands() -> Vec<String> {
    Command::all().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

fn options(command: &str) -> Vec<String> {
    let all = Command::all();
    let Some(command) = all.find_subcommand(command) else { return Vec::new() };
    let long = |argument: &clap::Arg| argument.get_long().map(|long| format!("--{long}"));
    let short = |argument: &clap::Arg| argument.get_short().map(|short| format!("-{short}"));
    command
        .get_arguments()
        .flat_map(|argument| [short(argument), long(argument)])
        .flatten()
        .collect()
}

/// The values that an argument can have, if there are only some: those of the option before, or else of the
/// command's first argument.
fn values(command: &str, before: &str) -> Option<Vec<String>> {
    let all = Command::all();
    let command = all.find_subcommand(command)?;
    let is_meant = |argument: &&clap::Arg| match before.strip_prefix('-') {
        Some(name) => {
            let short = argument.get_short().is_some_and(|short| name == short.to_string());
            short || argument.get_long().is_some_and(|long| name.strip_prefix('-') == Some(long))
        }
        None => before == command.get_name() && argument.get_index() == Some(1),
    };
    let argument = command.get_arguments().find(is_meant)?;
    // A flag has values too, which nobody types.
    let values = argument.get_num_args()?.takes_values().then(|| argument.get_possible_values())?;
    let names: Vec<_> = values.iter().map(|value| value.get_name().to_owned()).collect();
    (!names.is_empty()).then_some(names)
}

fn paths(word: &str, children: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let Some((parent, _)) = word.rsplit_once('/') else { return vec!["/".to_owned()] };
    let parent = if parent.is_empty() { "/" } else { parent };
    match znode(parent) {
        Ok(parent) => children(&parent).iter().map(|name| child(&parent, name)).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (usize, Vec<String>) {
        complete(line, |path| {
            let names: &[&str] = match path {
                "/" => &["zookeeper", "apps", "api", "two words"],
                "/apps" => &["one", "other"],
                "/two words" => &["x y", "xz"],
                _ => &[],
            };
            names.iter().map(ToString::to_string).collect()
        })
    }

    fn found(line: &str) -> Vec<String> {
        of(line).1
    }

    #[test]
    fn the_first_word_is_a_command() {
        assert_eq!(of("getA"), (0, vec!["getAcl".to_owned(), "getAllChildrenNumber".to_owned()]));
        assert_eq!(found("setq"), ["setquota"]);
        assert_eq!(found("mn"), ["mntr"]);
        assert_eq!(of("  wa"), (2, vec!["watch".to_owned()]));
        assert_eq!(found("help mul"), ["multi"]);
        assert!(found("").contains(&"locks".to_owned()));
        assert_eq!(found("nothing"), Vec::<String>::new());
    }

    #[test]
    fn options_are_those_of_the_command() {
        assert_eq!(found("ls --"), ["--help", "--recursive", "--stat", "--watch"]);
        assert_eq!(found("ls /a -R"), ["-R"]);
        assert_eq!(found("set --v"), ["--version"]);
        assert_eq!(found("nothing --"), Vec::<String>::new());
    }

    #[test]
    fn values_are_those_of_the_argument() {
        assert_eq!(found("addWatch -m P"), ["PERSISTENT", "PERSISTENT_RECURSIVE"]);
        assert_eq!(found("addWatch --mode PERSISTENT_"), ["PERSISTENT_RECURSIVE"]);
        assert_eq!(found("addWatch -m PERSISTENT /app"), ["/apps"]);
        assert_eq!(found("printwatches o"), ["off", "on"]);
        assert_eq!(found("ls -s /app"), ["/apps"]);
        assert_eq!(found("setquota -n 5 /ap"), ["/api", "/apps"]);
    }

    #[test]
    fn other_words_are_znodes() {
        assert_eq!(found("ls "), ["/"]);
        assert_eq!(of("ls -s /ap"), (6, vec!["/api".to_owned(), "/apps".to_owned()]));
        assert_eq!(found("get /apps/o"), ["/apps/one", "/apps/other"]);
        assert_eq!(found("get /apps/x"), Vec::<String>::new());
        assert_eq!(found("get /nothing/"), Vec::<String>::new());
    }

    #[test]
    fn what_has_spaces_is_quoted_and_completed_further() {
        assert_eq!(of("get /t"), (4, vec!["'/two words'".to_owned()]));
        assert_eq!(of("get '/two w"), (4, vec!["'/two words'".to_owned()]));
        assert_eq!(found("get '/two words'/x"), ["'/two words/x y'", "'/two words/xz'"]);
    }
}
