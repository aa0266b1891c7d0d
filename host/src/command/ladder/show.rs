//! The ladder in words and in JSON.

use super::cpu::OnCpu;
use super::{Climbed, Ladder, Rung};
use crate::command::output::{count, counters_json, multiply_adds, or_dash, seconds, table};
use crate::command::verdict::verification_json;
use regemm::Counters;
use regemm::measure::Samples;
use regemm::verify::Verification;
use serde_json::{Value, json};

impl Ladder {
    /// A table of all kernels on one size.
    pub fn text(&self, climbed: &Climbed) -> String {
        let Climbed { size, cpu, rungs } = climbed;
        let before = |rung: usize| rung.checked_sub(1).map(|before| &rungs[before]);
        if self.device.is_sim() {
            let row = |(index, rung): (usize, &Rung)| {
                let counters = rung.counters.unwrap_or_default();
                let loads = |counters: &Counters| counters.global_load_elements as f64;
                let fewer = before(index).and_then(|before| before.counters.as_ref());
                let mut row = vec![
                    rung.kernel.name.to_owned(),
                    count(counters.global_load_elements),
                    or_dash(fewer.map(|before| times(loads(before) / loads(&counters)))),
                    count(counters.global_load_sectors),
                    count(counters.shared_load_wavefronts + counters.shared_store_wavefronts),
                    count(counters.shared_load_conflicts + counters.shared_store_conflicts),
                    count(counters.block_barriers),
                    count(multiply_adds(&counters)),
                ];
                row.extend(error(&rung.verification));
                row
            };
            let table = table(&SIMULATOR_HEADING, rungs.iter().enumerate().map(row));
            return format!(
                "{table}\nfewer: global loads, relative to the kernel in the row above"
            );
        }
        let row = |name: String, taken: Option<f64>, before: Option<f64>, rung: Option<&Rung>| {
            let speed = taken.map(|taken| size.operations() / taken);
            let share = rung.zip(speed).and_then(|(rung, speed)| self.share_of_peak(rung, speed));
            vec![
                name,
                or_dash(taken.map(seconds)),
                or_dash(speed.map(|speed| format!("{:.1}", speed / 1e9))),
                or_dash(before.zip(taken).map(|(before, taken)| times(before / taken))),
                or_dash(share.map(|share| format!("{:.1} %", share * 100.0))),
            ]
        };
        let of_cpu = cpu.iter().map(|cpu| {
            let mut row = row(format!("processor, {}", cpu.dtype), cpu.seconds(), None, None);
            row.extend(error(&cpu.verification));
            row
        });
        let of_rungs = rungs.iter().enumerate().map(|(index, rung)| {
            let above = match before(index) {
                Some(above) => above.seconds(),
                None => cpu.as_ref().and_then(OnCpu::seconds),
            };
            let mut row = row(rung.kernel.name.to_owned(), rung.seconds(), above, Some(rung));
            row.extend(error(&rung.verification));
            row
        });
        let table = table(&GPU_HEADING, of_cpu.chain(of_rungs));
        format!("{table}\nspeed-up: relative to the row above")
    }

    /// Of the peak of the units that a rung multiplies with, if known.
    fn share_of_peak(&self, rung: &Rung, flops: f64) -> Option<f64> {
        Some(flops / self.device.info().peak_flops_of(rung.kernel)?)
    }

    /// The same as JSON.
    pub fn json(&self, climbed: &Climbed) -> Value {
        let Climbed { size, cpu, rungs } = climbed;
        let kernels: Vec<Value> = rungs
            .iter()
            .map(|rung| {
                let taken = rung.seconds();
                let speed = taken.map(|taken| size.operations() / taken);
                json!({
                    "kernel": rung.kernel.name,
                    "rung": rung.kernel.rung.name(),
                    "seconds": taken,
                    "spread": rung.samples.as_ref().map(Samples::spread),
                    "gflops": speed.map(|speed| speed / 1e9),
                    "share_of_peak": speed.and_then(|speed| self.share_of_peak(rung, speed)),
                    "counters": rung.counters.as_ref().map(counters_json),
                    "verification": verification_json(&rung.verification),
                })
            })
            .collect();
        let cpu = cpu.as_ref().map(|cpu| cpu.json(size.operations()));
        json!({ "m": size.m, "n": size.n, "k": size.k, "cpu": cpu, "kernels": kernels })
    }
}

const GPU_HEADING: [&str; 7] =
    ["kernel", "time", "GFLOP/s", "speed-up", "of peak", "error / bound", "error in norm"];

const SIMULATOR_HEADING: [&str; 10] = [
    "kernel",
    "global loads",
    "fewer",
    "sectors",
    "shared passes",
    "conflicts",
    "barriers",
    "FMAs",
    "error / bound",
    "error in norm",
];

/// The two columns of an error.
fn error(verification: &Verification) -> [String; 2] {
    let comparison = &verification.comparison;
    let ratio = if verification.pass() {
        format!("{:.4}", comparison.max_ratio)
    } else {
        "WRONG".to_owned()
    };
    [ratio, format!("{:.2e}", comparison.relative_norm_error)]
}

fn times(factor: f64) -> String {
    format!("{factor:.2} x")
}
