//! How the figures of each step grow from one size to the next. Pure arithmetic and text.

use crate::report::thousands;
use std::fmt::Write as _;

/// The figures of one step at one size.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    step: String,
    seconds: f64,
    /// User and system time.
    processor: f64,
    memory: f64,
    /// Bytes of the manifest or of the cache that the step wrote.
    kept: Option<f64>,
}

impl Sample {
    /// The sample of a step, from its figures by name.
    pub(super) fn of(step: String, figure: impl Fn(&str) -> Option<f64>) -> Sample {
        let or_zero = |name| figure(name).unwrap_or(0.0);
        Sample {
            step,
            seconds: or_zero("seconds"),
            processor: or_zero("processor_seconds"),
            memory: or_zero("memory_bytes"),
            kept: figure("kept_bytes"),
        }
    }

    /// The sample as a line of text.
    pub(super) fn line(&self, size: u64) -> String {
        let mut line = format!(
            "{}: {:.2} s, {:.2} s of processor time, {:.1} MiB",
            self.step,
            self.seconds,
            self.processor,
            mebibytes(self.memory)
        );
        if let Some(kept) = self.kept {
            let _ = write!(line, ", kept {:.1} bytes each", kept / size as f64);
        }
        line
    }
}

/// The samples of all sizes.
pub(super) struct Growth {
    /// The counted things.
    unit: &'static str,
    sizes: Vec<(u64, Vec<Sample>)>,
}

impl Growth {
    pub(super) fn new(unit: &'static str) -> Growth {
        Growth { unit, sizes: Vec::new() }
    }

    pub(super) fn add(&mut self, size: u64, samples: Vec<Sample>) {
        self.sizes.push((size, samples));
    }

    /// Tables in Markdown: the samples, and how the last size compares with the first.
    pub(super) fn tables(&self) -> String {
        self.samples() + &self.comparison()
    }

    fn samples(&self) -> String {
        let mut text = format!("\n| {} | step | s | processor s | memory MiB | kept bytes each |\n", self.unit);
        text.push_str("|---|---|---|---|---|---|\n");
        for (size, sample) in self.sizes.iter().flat_map(|(size, all)| all.iter().map(move |one| (*size, one))) {
            let kept = sample.kept.map(|kept| format!("{:.1}", kept / size as f64)).unwrap_or_default();
            let (seconds, processor, memory) = (sample.seconds, sample.processor, mebibytes(sample.memory));
            let (size, step) = (thousands(size), &sample.step);
            let _ = writeln!(text, "| {size} | {step} | {seconds:.1} | {processor:.1} | {memory:.1} | {kept} |");
        }
        text
    }

    fn comparison(&self) -> String {
        let [(small, few), .., (large, many)] = self.sizes.as_slice() else { return String::new() };
        let work = |size: u64| size as f64 * (size as f64).ln();
        let bound = work(*large) / work(*small);
        let mut text =
            format!("\nn log n grows by {bound:.1}.\n\n| step | time × | processor × | memory bytes each | |\n");
        text.push_str("|---|---|---|---|---|\n");
        for (before, after) in few.iter().filter_map(|before| Some((before, named(many, &before.step)?))) {
            let (seconds, processor) = (after.seconds / before.seconds, after.processor / before.processor);
            let verdict = if seconds > bound { "worse than n log n" } else { "" };
            let each = (after.memory - before.memory) / (*large - *small) as f64;
            let step = &before.step;
            let _ = writeln!(text, "| {step} | {seconds:.1} | {processor:.1} | {each:.1} | {verdict} |");
        }
        text
    }
}

fn named<'s>(samples: &'s [Sample], step: &str) -> Option<&'s Sample> {
    samples.iter().find(|sample| sample.step == step)
}

fn mebibytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, memory: f64) -> Sample {
        Sample { step: "walk".into(), seconds, processor: seconds / 2.0, memory, kept: Some(memory) }
    }

    #[test]
    fn a_step_is_worse_only_beyond_n_log_n() {
        for (seconds, verdict) in [(11.6, ""), (11.7, "worse than n log n")] {
            let mut growth = Growth::new("files");
            growth.add(1_000_000, vec![sample(1.0, 5e6)]);
            growth.add(10_000_000, vec![sample(seconds, 50e6)]);
            let tables = growth.tables();
            let expected = format!("| walk | {seconds:.1} | {seconds:.1} | 5.0 | {verdict} |");
            assert!(tables.contains(&expected), "{tables}");
            assert!(tables.contains("| 10,000,000 | walk | "), "{tables}");
        }
    }
}
