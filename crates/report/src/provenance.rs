//! Where, when and with what something was measured.

use serde::{Deserialize, Serialize};
use std::process::Command;

/// Where, when and with what a record was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The day, as `YYYY-MM-DD` in UTC.
    pub date: String,
    /// The commit that the folder of the sources was at during the run, with `-dirty` behind it if they were changed
    /// since; `None` where it cannot be told. It is that of the program if that was built just before, as `cargo run`
    /// and `cargo bench` do; a program that was built earlier may be of an older one.
    #[serde(default)]
    pub commit: Option<String>,
    /// The version of regemm; empty in records that do not name it.
    #[serde(default)]
    pub version: String,
    /// The device's name.
    #[serde(alias = "gpu")]
    pub device: String,
    /// Its multiprocessors, also on the simulator.
    pub multiprocessors: u32,
    /// Its compute capability, major and minor; none on the simulator.
    #[serde(default)]
    pub compute_capability: Option<(u32, u32)>,
    /// Version of the GPU's driver.
    #[serde(default)]
    pub driver: Option<String>,
    /// Clocks and limits as `nvidia-smi` reports them when the run begins, or why they are not known.
    #[serde(default)]
    pub clocks: Option<String>,
}

impl Provenance {
    /// Made up for tests.
    #[cfg(test)]
    pub(crate) fn synthetic() -> Self {
        Provenance {
            date: "2026-01-31".into(),
            commit: Some("abc1234".into()),
            version: "0.1.0".into(),
            device: "NVIDIA Imaginary".into(),
            multiprocessors: 10,
            compute_capability: Some((9, 0)),
            driver: Some("580.1".into()),
            clocks: None,
        }
    }

    /// This moment, the sources as they are now and the named device. Driver and clocks are asked of `nvidia-smi` if
    /// the device has a compute capability, the commit of `git`; what they do not tell stays out.
    pub fn gather(
        device: &str,
        multiprocessors: u32,
        compute_capability: Option<(u32, u32)>,
    ) -> Self {
        let gpu = compute_capability.and_then(|_| ask_for_gpu(device));
        let (driver, clocks) = gpu.unzip();
        Provenance {
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            device: device.to_owned(),
            multiprocessors,
            compute_capability,
            driver,
            clocks,
        }
    }
}

/// Clocks and limits of the GPU of this name at this moment, as `nvidia-smi` reports them.
pub fn clocks(device: &str) -> Option<String> {
    ask_for_gpu(device).map(|(_, clocks)| clocks)
}

/// What `nvidia-smi` is asked: the name first, then the driver, the rest are clocks and limits.
const QUERY: &str =
    "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit";

/// Driver and clocks of the GPU of this name. One of several cannot be told from the others by its name: their clocks
/// are not those of the run.
fn ask_for_gpu(name: &str) -> Option<(String, String)> {
    let answer = output_of("nvidia-smi", &[QUERY, "--format=csv,noheader"])?;
    driver_and_clocks(&answer, name)
}

fn driver_and_clocks(answer: &str, name: &str) -> Option<(String, String)> {
    let gpus = answer.lines().filter_map(|line| line.split_once(','));
    let gpus: Vec<&str> =
        gpus.filter(|(gpu, _)| gpu.trim() == name).map(|(_, rest)| rest).collect();
    let (driver, clocks) = gpus.first()?.split_once(',')?;
    let clocks = match gpus.len() {
        1 => format!("SM now, SM most, memory, power limit: {}", clocks.trim()),
        count => format!("clocks unknown, of {count} GPUs of this name"),
    };
    Some((driver.trim().to_owned(), clocks))
}

/// The commit of the folder that this was built in, as it is now, if it is still there and under version control.
fn commit() -> Option<String> {
    let sources = env!("CARGO_MANIFEST_DIR");
    // A folder inside somebody else's repository, such as a home folder, is not ours to name.
    output_of("git", &["-C", sources, "ls-files", "--error-unmatch", "Cargo.toml"])?;
    output_of("git", &["-C", sources, "describe", "--always", "--dirty", "--exclude=*"])
}

/// What a program prints, trimmed; `None` where it cannot be run, fails or prints nothing.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_is_found_by_its_name() {
        let answer = "NVIDIA L4, 550.1, 210 MHz, 2040 MHz, 405 MHz, 72.00 W\n\
                      NVIDIA H200, 580.2, 1980 MHz, 1980 MHz, 3201 MHz, 700.00 W";
        let (driver, clocks) = driver_and_clocks(answer, "NVIDIA H200").unwrap();
        assert_eq!(driver, "580.2");
        assert_eq!(
            clocks,
            "SM now, SM most, memory, power limit: 1980 MHz, 1980 MHz, 3201 MHz, 700.00 W"
        );
        assert_eq!(driver_and_clocks(answer, "NVIDIA H100"), None);
        assert_eq!(driver_and_clocks("", "NVIDIA H200"), None);
    }

    #[test]
    fn of_several_gpus_of_a_name_no_clocks_are_taken() {
        let answer = "NVIDIA H200, 580.2, 345 MHz, 1980 MHz, 3201 MHz, 700.00 W\n\
                      NVIDIA H200, 580.2, 1980 MHz, 1980 MHz, 3201 MHz, 700.00 W";
        let (driver, clocks) = driver_and_clocks(answer, "NVIDIA H200").unwrap();
        assert_eq!(driver, "580.2");
        assert_eq!(clocks, "clocks unknown, of 2 GPUs of this name");
    }

    #[test]
    fn the_simulator_has_neither_driver_nor_clocks() {
        let provenance = Provenance::gather("simulator", 2, None);
        assert_eq!((provenance.driver, provenance.clocks), (None, None));
        assert_eq!(provenance.date.len(), "2026-01-31".len());
        assert_eq!(provenance.device, "simulator");
    }
}
