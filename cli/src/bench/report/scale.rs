//! Logarithmic scales.

/// A logarithmic scale: each power of ten takes the same length.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    least: f64,
    greatest: f64,
    /// Where the ends are drawn.
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale from the least to the greatest number; `None` without numbers.
    pub(super) fn tight(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values = values.filter(|&value| value > 0.0 && value.is_finite());
        let (least, greatest) =
            values.fold(None, |range: Option<(f64, f64)>, value| match range {
                Some((least, greatest)) => Some((least.min(value), greatest.max(value))),
                None => Some((value, value)),
            })?;
        // A single number is drawn in the middle.
        let is_one = least == greatest;
        let (least, greatest) =
            if is_one { (least / STEP, greatest * STEP) } else { (least, greatest) };
        Some(Self { least, greatest, from: 0.0, to: 1.0 })
    }

    /// As [`Scale::tight`], but extended to powers of ten.
    pub(super) fn wide(values: impl Iterator<Item = f64>) -> Option<Self> {
        let Self { least, greatest, from, to } = Self::tight(values)?;
        let least = STEP.powf((least.log10() + ROUNDING).floor());
        let greatest = STEP.powf((greatest.log10() - ROUNDING).ceil());
        Some(Self { least, greatest, from, to })
    }

    /// The same numbers between two positions.
    pub(super) fn between(&self, from: f64, to: f64) -> Self {
        Self { from, to, ..self.clone() }
    }

    /// Where a number is drawn.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (least, greatest) = (self.least.log10(), self.greatest.log10());
        let share = (value.max(self.least).log10() - least) / (greatest - least);
        self.from + share * (self.to - self.from)
    }

    /// The powers of ten on it.
    pub(super) fn powers(&self) -> Vec<f64> {
        let (least, greatest) = (self.least.log10(), self.greatest.log10());
        let first = (least - ROUNDING).ceil() as i32;
        let last = (greatest + ROUNDING).floor() as i32;
        (first..=last).map(|power| STEP.powi(power)).collect()
    }
}

const STEP: f64 = 10.0;

/// The rounding error of logarithms.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_of_ten_is_as_far_from_the_last() {
        let scale = Scale::wide([3.0, 0.0, 700.0].into_iter()).unwrap().between(0.0, 300.0);
        assert_eq!(scale.powers(), [1.0, 10.0, 100.0, 1000.0]);
        let places: Vec<i64> =
            scale.powers().iter().map(|&power| scale.at(power).round() as i64).collect();
        assert_eq!(places, [0, 100, 200, 300]);
    }

    #[test]
    fn a_scale_needs_a_number() {
        assert_eq!(Scale::wide([0.0, -1.0, f64::NAN].into_iter()), None);
        let one = Scale::tight([5.0].into_iter()).unwrap();
        assert!((one.at(5.0) - 0.5).abs() < 1e-9);
    }
}
