//! Progress bars on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr, if that is a terminal and stdout is not one.
pub(super) fn bar(total_bytes: u64, prints: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total_bytes), target(prints));
    let style = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.with_style(ProgressStyle::with_template(style).expect("the template is right"))
}

/// A counter without a known end.
pub(super) fn counter(of_what: &'static str, prints: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target(prints));
    let style = ProgressStyle::with_template("{spinner} {human_pos} {msg}, {per_sec}");
    bar.with_style(style.expect("the template is right")).with_message(of_what)
}

fn target(prints: bool) -> ProgressDrawTarget {
    if prints && io::stdout().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        // Hidden if stderr is no terminal.
        ProgressDrawTarget::stderr()
    }
}

/// A number of bytes with a unit.
pub(super) fn bytes_text(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}
