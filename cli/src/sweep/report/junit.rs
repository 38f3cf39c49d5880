//! The report in JUnit's XML, as CI servers read it: a test case for each fault.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::super::campaign::{Outcome, Stop, Trial};
use super::super::limits::LINES_IN_FILES;
use super::text::ending;
use super::{NotMade, Report, command_line, last_lines};

/// The report in JUnit's XML.
pub(in super::super) fn document(report: &Report<'_>) -> String {
    text(|writer| write(writer, report))
}

/// That there is no report, in JUnit's XML.
pub(in super::super) fn not_made(report: &NotMade<'_>) -> String {
    text(|writer| write_not_made(writer, report))
}

fn text(write: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let declaration = Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None));
    let written = writer.write_event(declaration).and_then(|()| write(&mut writer));
    written.expect("a vector can be written to");
    let text = String::from_utf8(writer.into_inner()).expect("it was written as UTF-8");
    text + "\n"
}

fn write_not_made(writer: &mut Writer<Vec<u8>>, report: &NotMade<'_>) -> io::Result<()> {
    let name = allowed(&format!("zoolet sweep {}", command_line(report.command)));
    let suite = writer.create_element("testsuite").with_attributes([
        ("name", name.as_str()),
        ("tests", "1"),
        ("failures", "0"),
        ("errors", "1"),
        ("skipped", "0"),
        ("time", "0.000"),
    ]);
    let suite =
        suite.write_inner_content(|writer| write_error(writer, &report.why, &report.output));
    suite.map(drop)
}

fn write(writer: &mut Writer<Vec<u8>>, report: &Report<'_>) -> io::Result<()> {
    let name = allowed(&format!("zoolet sweep {}", report.command_line()));
    let errors = usize::from(report.trials.stopped_by.is_some());
    let counts = [
        report.trials.trials.len() + errors,
        report.count(Outcome::Broke) + report.count(Outcome::FailedByItself),
        errors,
        report.count(Outcome::NotReached),
    ];
    let [tests, failures, errors, skipped] = counts.map(|count| count.to_string());
    let time = format!("{:.3}", report.trials.took.as_secs_f64());
    let suite = writer.create_element("testsuite").with_attributes([
        ("name", name.as_str()),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
        ("time", &time),
    ]);
    suite.write_inner_content(|writer| {
        report.trials.trials.iter().try_for_each(|trial| write_case(writer, report, trial))?;
        match &report.trials.stopped_by {
            Some(stop) => write_stop(writer, report, stop),
            None => Ok(()),
        }
    })?;
    Ok(())
}

/// A sweep that was stopped is no success, whatever it had found by then.
fn write_stop(writer: &mut Writer<Vec<u8>>, report: &Report<'_>, stop: &Stop) -> io::Result<()> {
    let (run, planned) = (report.trials.trials.len(), report.planned);
    write_error(writer, &format!("stopped after {run} of {planned} faults: {stop}"), "")
}

fn write_error(writer: &mut Writer<Vec<u8>>, why: &str, output: &str) -> io::Result<()> {
    let (message, output) = (allowed(why), allowed(output));
    let case = writer.create_element("testcase").with_attributes([
        ("classname", "sweep"),
        ("name", "all faults are injected"),
        ("time", "0.000"),
    ]);
    let error = |writer: &mut Writer<Vec<u8>>| {
        let error = writer.create_element("error");
        let error = error.with_attributes([("type", "stopped"), ("message", message.as_str())]);
        match output.is_empty() {
            true => error.write_empty().map(drop),
            false => error.write_text_content(BytesText::new(&output)).map(drop),
        }
    };
    case.write_inner_content(error).map(drop)
}

fn write_case(writer: &mut Writer<Vec<u8>>, report: &Report<'_>, trial: &Trial) -> io::Result<()> {
    let name = allowed(&format!("{} [{}]", trial.fault.point, trial.fault.id()));
    let class = format!("sweep.{}", trial.fault.kind);
    let time = format!("{:.3}", trial.run.took.as_secs_f64());
    let case = writer.create_element("testcase").with_attributes([
        ("classname", class.as_str()),
        ("name", &name),
        ("time", &time),
    ]);
    let failure = |writer: &mut Writer<Vec<u8>>, kind: &str, what: &str| {
        let how = ending(trial.run.ending, report.limit_of(trial));
        let message = allowed(&format!("{how}: {what}"));
        let output = last_lines(&trial.run, LINES_IN_FILES).join("\n");
        let text = allowed(&format!("{output}\n\n{}\n", report.replay(trial)));
        let failure = writer.create_element("failure");
        let failure = failure.with_attributes([("type", kind), ("message", message.as_str())]);
        failure.write_text_content(BytesText::new(&text)).map(drop)
    };
    match trial.outcome() {
        Outcome::Passed => case.write_empty().map(drop),
        Outcome::Broke => {
            let what = trial.fault.sentence(report.times);
            case.write_inner_content(|writer| failure(writer, "broke", &what)).map(drop)
        }
        Outcome::FailedByItself => {
            let what = "the request did not come, so there was no fault";
            case.write_inner_content(|writer| failure(writer, "failed by itself", what)).map(drop)
        }
        Outcome::NotReached => {
            let skipped = |writer: &mut Writer<Vec<u8>>| {
                let skipped = writer.create_element("skipped");
                let message = "not reached: the request did not come in this run";
                skipped.with_attribute(("message", message)).write_empty().map(drop)
            };
            case.write_inner_content(skipped).map(drop)
        }
    }
}

/// A text without the characters that XML cannot have in any form.
fn allowed(text: &str) -> String {
    let is_allowed = |c: &char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control(),
    };
    text.chars().filter(is_allowed).collect()
}
