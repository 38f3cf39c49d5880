//! `multi`: one transaction of several operations, each given as a word.

use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};
use zoolet_client::Client;
use zoolet_protocol::{Check, Expect, MultiOp, MultiResult, SetData};

use super::answer::{Answer, stat_value};
use super::arguments::{Create, Delete, Set, expected, znode};
use super::commands::{known, wrong};
use super::failure::Failure;
use super::line;

#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_subcommand = true)]
struct Operation {
    #[command(subcommand)]
    kind: OperationKind,
}

#[derive(Debug, Subcommand)]
enum OperationKind {
    Create(Create),
    Set(Set),
    Delete(Delete),
    Check(Checked),
}

#[derive(Debug, Args)]
struct Checked {
    #[arg(short = 'v', long, value_name = "VERSION", allow_negative_numbers = true)]
    version: Option<i32>,
    #[arg(value_parser = znode)]
    path: String,
}

/// Runs the operations as one transaction. The text of the answer has the znodes that they created.
pub(super) async fn run(client: &Client, operations: &[String]) -> Result<Answer, Failure> {
    let ops = operations.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    let results = match client.multi(ops).await {
        Ok(results) => results,
        Err(error) => {
            return Err(match error.operation_index() {
                Some(index) => Failure::Multi { index, error },
                None => error.into(),
            });
        }
    };
    let json: Vec<Value> = results.iter().map(result).collect();
    let created = results.iter().filter_map(|result| match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path),
        _ => None,
    });
    let answer = Answer::of("multi").with("results", json);
    Ok(created.fold(answer, |answer, path| answer.line(&format!("Created {path}"))))
}

/// The result of one operation.
fn result(result: &MultiResult) -> Value {
    match result {
        MultiResult::Create(path) => json!({ "operation": "create", "path": &**path }),
        MultiResult::Create2(path, stat) => {
            json!({ "operation": "create", "path": &**path, "stat": stat_value(stat) })
        }
        MultiResult::SetData(stat) => json!({ "operation": "set", "stat": stat_value(stat) }),
        other => json!({ "operation": other.op_code().to_string() }),
    }
}

fn read(text: &str) -> Result<MultiOp, Failure> {
    let words = line::words(text)?;
    known(&words, &Operation::command(), "operation")?;
    let operation = Operation::try_parse_from(words).map_err(|error| match wrong(error) {
        Failure::Usage(wrong) => Failure::Usage(format!("in the operation {text:?}: {wrong}")),
        failure => failure,
    })?;
    Ok(match operation.kind {
        OperationKind::Create(create) => create_op(create),
        OperationKind::Set(set) => {
            let version = set.version();
            let data = Some(set.data.into());
            MultiOp::SetData(SetData { path: set.path.into(), data, version })
        }
        OperationKind::Delete(delete) => {
            let version = delete.version();
            MultiOp::Delete(zoolet_protocol::Delete { path: delete.path.into(), version })
        }
        OperationKind::Check(Checked { version, path }) => {
            let version: Expect = expected(version);
            MultiOp::Check(Check { path: path.into(), version })
        }
    })
}

fn create_op(create: Create) -> MultiOp {
    let mode = create.mode();
    let (kind, flags) = (mode.kind(), mode.flags());
    let Create { path, data, acl, .. } = create;
    let (data, acl) = (Some(data.into()), Some(acl.0));
    MultiOp::Create(zoolet_protocol::Create { kind, path: path.into(), data, acl, flags })
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::CreateFlags;

    use super::*;

    #[test]
    fn operations_are_read_as_the_commands_are() {
        let MultiOp::Create(create) = read("create -s -e '/a b' \"x y\" world:anyone:r").unwrap()
        else {
            panic!("it is a create")
        };
        assert_eq!(create.path.text(), Some("/a b"));
        assert_eq!(create.data.as_deref(), Some(&b"x y"[..]));
        assert_eq!(create.flags, CreateFlags::EPHEMERAL_SEQUENTIAL);
        let MultiOp::Check(check) = read("check -v 3 /a").unwrap() else { panic!("it is a check") };
        assert_eq!(check.version, Expect::Exactly(3));
        for wrong in ["", "get /a", "check", "set /a", "delete a", "create '/a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
