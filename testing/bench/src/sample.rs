//! Samples and what is said of them: medians, because the mean of a shared machine is its worst neighbour.

use std::time::Duration;

/// A set of measurements of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn push_ms(&mut self, value: Duration) {
        self.0.push(value.as_secs_f64() * 1000.0);
    }

    /// The value below which this share of the samples lies; 0 without samples.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// For what comes in turns of different length; 0 without samples.
    pub(crate) fn mean(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.iter().sum::<f64>() / self.0.len() as f64 }
    }

    /// Without the first samples, which paid for the warm-up.
    pub(crate) fn after(&self, warm_up: usize) -> Samples {
        Samples(self.0.iter().skip(warm_up).copied().collect())
    }

    /// The first and the last quarter, to see whether later samples are dearer.
    pub(crate) fn quarters(&self) -> (Samples, Samples) {
        let quarter = (self.0.len() / 4).max(1).min(self.0.len());
        (Samples(self.0[..quarter].to_vec()), Samples(self.0[self.0.len() - quarter..].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_samples() {
        let samples = Samples(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((samples.quantile(0.0), samples.median(), samples.quantile(1.0)), (1.0, 3.0, 5.0));
        assert_eq!(samples.after(3).median(), 4.0);
        assert_eq!(Samples::default().median(), 0.0);
        let (first, last) = samples.quarters();
        assert_eq!((first.median(), last.median()), (5.0, 4.0));
    }
}
