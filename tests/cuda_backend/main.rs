//! The CUDA half of the library without a GPU: against a driver that computes nothing but writes down what it is asked
//! (`crates/cuda_driver/tests/fake/libcuda.rs`). Its work never finishes by itself, so its log shows every wait.
//!
//! | module | theme |
//! |---|---|
//! | `opening` | which device is opened, and which kernels it takes |
//! | `order` | what waits for what, and what is asked of the driver for that |
//! | `memory` | copies, allocations, and when memory is given back |
//! | `capture` | streams that are captured in a graph |

#[path = "../../crates/cuda_driver/tests/support/mod.rs"]
mod support;

mod capture;
mod memory;
mod opening;
mod order;

use regemm::{Device, Gemm, KernelChoice, Matrix, Stream};
use std::path::Path;

fn kernel() -> KernelChoice {
    KernelChoice::Named("naive".into())
}

/// The lines of the log since the last call.
struct Log<'a> {
    path: &'a Path,
    read: usize,
}

impl Log<'_> {
    fn new(path: &Path) -> Log<'_> {
        let mut log = Log { path, read: 0 };
        log.next();
        log
    }

    fn next(&mut self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path).unwrap_or_default();
        let lines: Vec<_> = text.lines().skip(self.read).map(str::to_owned).collect();
        self.read += lines.len();
        // Only launches differ by more than their first words.
        let launch = |line: String| match line.split_once(" stream ") {
            Some((launch, rest)) if launch.starts_with("launch") => {
                let stream = rest.split(' ').next().unwrap_or_default();
                format!("{} on stream {stream}", launch.replace(" shared 0", ""))
            }
            _ => line,
        };
        lines.into_iter().map(launch).collect()
    }
}

fn matrix(device: &Device) -> Matrix<f32> {
    device.matrix(32, 32).unwrap()
}

fn enqueue(stream: &Stream, a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>) {
    let report = Gemm::new(a, b).kernel(kernel()).enqueue(stream, d).unwrap();
    assert!(report.launched && report.counters.is_none());
}

/// The number that the driver gave the stream of the last launch.
fn launched_on(lines: &[String]) -> String {
    let launch = lines.iter().rfind(|line| line.starts_with("launch")).unwrap();
    launch.rsplit(' ').next().unwrap().to_owned()
}

fn count(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(what)).count()
}
