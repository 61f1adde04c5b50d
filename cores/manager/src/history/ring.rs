//! A ring of values, each of a numbered step.

use std::collections::VecDeque;
use std::ops::Range;

/// The last values of a figure. A step of which nothing is known has none.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Values of the steps up to [`Ring::newest`]; what is no number is not known.
    values: VecDeque<f32>,
    newest: u64,
    most: usize,
}

impl Ring {
    /// An empty ring of so many steps at most.
    pub(super) fn new(most: usize) -> Self {
        Self { values: VecDeque::new(), newest: 0, most }
    }

    /// Notes the value of a step: of the newest one again, or of a later one. Older ones stay as they are: a clock was set back.
    pub(super) fn put(&mut self, step: u64, value: f64) {
        match self.newest() {
            Some(newest) if step < newest => return,
            Some(newest) if step == newest => {
                self.values.pop_back();
            }
            Some(newest) => {
                let gap = usize::try_from(step - newest - 1).unwrap_or(usize::MAX).min(self.most);
                self.values.extend(std::iter::repeat_n(f32::NAN, gap));
            }
            None => {}
        }
        self.newest = step;
        self.values.push_back(value as f32);
        let over = self.values.len().saturating_sub(self.most);
        self.values.drain(..over);
    }

    /// The newest step.
    pub(super) fn newest(&self) -> Option<u64> {
        (!self.values.is_empty()).then_some(self.newest)
    }

    /// The newest value.
    pub(super) fn last(&self) -> Option<f64> {
        self.values.back().map(|value| f64::from(*value))
    }

    /// Returns the mean of what is known of some steps.
    pub(super) fn mean(&self, steps: Range<u64>) -> Option<f64> {
        let newest = self.newest()?;
        let first = newest + 1 - self.values.len() as u64;
        let (from, to) = (steps.start.max(first), steps.end.min(newest + 1));
        let known = (from..to).map(|step| f64::from(self.values[(step - first) as usize])).filter(|value| value.is_finite());
        let (sum, count) = known.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Counts the steps that are known.
    pub(super) fn known(&self) -> usize {
        self.values.iter().filter(|value| value.is_finite()).count()
    }
}
