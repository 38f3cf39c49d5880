//! Pages for a browser: one file that loads nothing, in light and dark.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A whole page with this title, style sheet and body.
pub(crate) fn page(title: &str, style: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
}
