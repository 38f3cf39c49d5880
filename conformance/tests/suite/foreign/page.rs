//! The page of `zoolet bench --report` in a browser, compared by pixels.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use zoolet_conformance::peers::CHROMIUM;
use zoolet_conformance::process::zoolet_binary;

use super::succeeded;

const WIDTH: usize = 1000;
const HEIGHT: usize = 1600;

/// The fewest pixels of a line, whose label has the same colour.
const LINE_PIXELS_MIN: usize = 300;

/// The part of the pixels that have the colour of the background: less than everything and more
/// than a broken page.
const EMPTY_SHARE: std::ops::Range<f64> = 0.3..0.98;

/// The colours of the page, from its style sheet.
struct Look {
    name: &'static str,
    /// The browser's number for this colour scheme.
    preference: u8,
    page: Colour,
    /// The colours of the three locks.
    lines: [Colour; 3],
}

type Colour = [u8; 3];

const LOOKS: [Look; 2] = [
    Look {
        name: "light",
        preference: 1,
        page: [0xfc, 0xfc, 0xfa],
        lines: [[0xc8, 0x42, 0x1b], [0xb3, 0x7b, 0x00], [0x0a, 0x6c, 0xb0]],
    },
    Look {
        name: "dark",
        preference: 0,
        page: [0x14, 0x17, 0x1a],
        lines: [[0xff, 0x82, 0x57], [0xf0, 0xbb, 0x45], [0x62, 0xb6, 0xf5]],
    },
];

/// The page shows the three lines in the light and in the dark colour scheme.
pub(crate) fn shows_lines_by_day_and_by_night() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let page = folder.path().join("herd.html");
    let mut bench = Command::new(zoolet_binary()?);
    bench.args(["bench", "herd", "--waiters", "1,4,16", "--hand-overs", "10", "--rounds", "1"]);
    succeeded(&bench.arg("--report").arg(&page).output()?)?;
    for look in LOOKS {
        let picture = folder.path().join(look.name).with_extension("png");
        take(&page, &picture, look.preference)?;
        look.check(&pixels(&picture)?)?;
    }
    Ok(())
}

/// Takes a screenshot of a page.
fn take(page: &Path, picture: &Path, preference: u8) -> Result<(), Failed> {
    let mut browser = Command::new(CHROMIUM);
    // The sandbox does not work for root, and the page has no scripts.
    browser.args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    browser.arg(format!("--window-size={WIDTH},{HEIGHT}"));
    browser.arg(format!("--blink-settings=preferredColorScheme={preference}"));
    browser.arg(format!("--screenshot={}", picture.display()));
    browser.arg(format!("file://{}", page.display()));
    succeeded(&browser.output()?)
}

fn pixels(picture: &Path) -> Result<Vec<Colour>, Failed> {
    let mut decoder = png::Decoder::new(BufReader::new(File::open(picture)?));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
    let info = reader.next_frame(&mut bytes)?;
    assert_eq!((info.width as usize, info.height as usize), (WIDTH, HEIGHT));
    let samples = info.color_type.samples();
    assert!(samples >= 3, "a picture in colours, not {:?}", info.color_type);
    let of_pixel = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
    Ok(bytes[..info.buffer_size()].chunks_exact(samples).map(of_pixel).collect())
}

impl Look {
    fn check(&self, pixels: &[Colour]) -> Result<(), Failed> {
        let count = |colour: Colour| pixels.iter().filter(|&&pixel| pixel == colour).count();
        let empty = count(self.page) as f64 / pixels.len() as f64;
        if !EMPTY_SHARE.contains(&empty) {
            return Err(format!("{}: {empty} of the page is empty", self.name).into());
        }
        for line in self.lines {
            let count = count(line);
            if count < LINE_PIXELS_MIN {
                return Err(format!("{}: {count} pixels of {line:x?}", self.name).into());
            }
        }
        Ok(())
    }
}
