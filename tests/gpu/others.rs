//! This test program run once more, on GPUs that are not those of the machine: a stand-in for the driver says that they
//! are there. It computes nothing, so every result is wrong; which trials there are, and what is said of those that
//! there are not, does not depend on results.

#[allow(dead_code, reason = "what runs one test again is for the usual harness")]
#[path = "../../crates/cuda_driver/tests/support/mod.rs"]
mod support;

use libtest_mimic::Trial;
use regemm::{KernelInfo, Needs, kernels};
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

pub type Outcome = Result<(), String>;

/// A trial, and its name.
pub type Named = (&'static str, fn(&Others) -> Outcome);

/// A compute capability, and bytes of shared memory that a block has there.
type Gpu = ((u32, u32), u32);

const GPUS: [Gpu; 5] =
    [((7, 5), 65_536), ((8, 0), 166_912), ((8, 9), 101_376), ((9, 0), 232_448), ((12, 0), 101_376)];

/// For this one there is no PTX.
const TOO_OLD: Gpu = ((7, 0), 65_536);

/// For 8.9 there is, and little of what kernels for Hopper need.
pub const NO_HOPPER: Gpu = ((8, 9), 101_376);

/// Runs one trial that passes everywhere if there need not be a GPU.
const PASSES: [&str; 2] = ["--exact", "gpu_is_there_if_required"];

/// The stand-in, compiled.
pub struct Others {
    folder: TempDir,
}

/// What a program said, and whether it succeeded.
pub struct Said {
    pub text: String,
    pub success: bool,
}

impl Others {
    pub fn new() -> Result<Others, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        support::compile_fake(&folder.path().join("libcuda.so.1"), &[]);
        Ok(Others { folder })
    }

    /// Runs this program on a GPU.
    pub fn run(
        &self,
        ((major, minor), shared): Gpu,
        settings: &[(&str, &str)],
        arguments: &[&str],
    ) -> Result<Said, String> {
        let program: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = Command::new(program)
            .args(arguments)
            .env_remove("REGEMM_REQUIRE_GPU")
            .env("REGEMM_CACHE_DIR", self.folder.path().join("cache"))
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("FAKE_CUDA_MEMORY", "4000000000")
            .env("FAKE_CUDA_CAPABILITY", format!("{major}.{minor}"))
            .env("FAKE_CUDA_SHARED", shared.to_string())
            .envs(settings.iter().copied())
            .output()
            .map_err(|error| error.to_string())?;
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        Ok(Said { text: format!("{out}{err}"), success: output.status.success() })
    }

    /// No trial is on a GPU that is too old for all PTX. The program says so and passes, unless there has to be a GPU.
    pub fn too_old_is_none(&self) -> Outcome {
        let listed = self.run(TOO_OLD, &[], &["--list"])?;
        expect("no trial on a GPU", !listed.text.contains("cuda:0::"), &listed)?;
        let said = self.run(TOO_OLD, &[], &PASSES)?;
        let says_why = |said: &Said| said.text.contains("compute capability 7.0");
        expect("success, and why there is no GPU", said.success && says_why(&said), &said)?;
        let said = self.run(TOO_OLD, &[("REGEMM_REQUIRE_GPU", "1")], &PASSES)?;
        expect("a failure, and why there is no GPU", !said.success && says_why(&said), &said)
    }

    /// Trials are on the first GPU where there is another one that cannot be opened.
    pub fn first_will_do(&self) -> Outcome {
        let settings = [("FAKE_CUDA_DEVICES", "2")];
        let listed = self.run(NO_HOPPER, &settings, &["--list"])?;
        expect("trials on the first GPU", listed.text.contains("cuda:0::"), &listed)?;
        let said = self.run(NO_HOPPER, &settings, &PASSES)?;
        expect("success", said.success, &said)
    }

    /// On each GPU there are trials of all kernels that it can run, and of no others. Of how many there are none is
    /// said, by reason.
    #[allow(dead_code, reason = "not all programs have trials by kernel")]
    pub fn trials_are_of_kernels_that_can_run(&self) -> Outcome {
        for gpu in GPUS {
            let (capability, shared) = gpu;
            let lacks = |kernel: &KernelInfo| !kernel.needs.met_by(capability);
            let is_large = |kernel: &KernelInfo| kernel.shared_bytes > shared;
            let all = || kernels::kernels().iter();
            let expected: BTreeSet<_> =
                all().filter(|k| !lacks(k) && !is_large(k)).map(|kernel| kernel.name).collect();
            let listed = self.run(gpu, &[], &["--list"])?;
            let found: BTreeSet<_> = listed.text.lines().filter_map(kernel_of_trial).collect();
            if let Some(missing) = expected.difference(&found).next() {
                return Err(format!("{capability:?}: there is no trial of {missing}"));
            }
            if let Some(other) = found.difference(&expected).next() {
                return Err(format!("{capability:?}: there is a trial of {other}"));
            }

            let said = self.run(gpu, &[], &PASSES)?;
            expect("success", said.success, &said)?;
            let of_needs = |needs: Needs| {
                let count = all().filter(|kernel| lacks(kernel) && kernel.needs == needs).count();
                (count, format!("need {needs}"))
            };
            let needs: HashSet<Needs> = all().map(|kernel| kernel.needs).collect();
            let mut reasons: Vec<_> = needs.into_iter().map(of_needs).collect();
            let large = all().filter(|kernel| !lacks(kernel) && is_large(kernel)).count();
            let room = format!("need more than {shared} bytes of shared memory a block");
            reasons.push((large, room));
            for (count, reason) in reasons.into_iter().filter(|&(count, _)| count > 0) {
                let reason = format!("{count} {reason}");
                expect(&reason, said.text.contains(&reason), &said)?;
            }
            let says_some = said.text.contains("cannot run");
            expect("what it cannot run", says_some != (expected.len() == all().count()), &said)?;
        }
        Ok(())
    }
}

/// The kernel of a trial on the first GPU, which is listed as `cuda:0::kernel::theme: test`.
fn kernel_of_trial(line: &str) -> Option<&str> {
    let (kernel, _) = line.strip_prefix("cuda:0::")?.split_once("::")?;
    Some(kernel)
}

/// Trials of what is the same in all programs with trials of their own, and of `more`.
pub fn add_trials(trials: &mut Vec<Trial>, more: &[Named]) {
    let same: [Named; 2] =
        [("too_old_is_none", Others::too_old_is_none), ("first_will_do", Others::first_will_do)];
    for &(name, test) in same.iter().chain(more) {
        let test = move || Ok(test(&Others::new()?)?);
        trials.push(Trial::test(format!("other_gpus::{name}"), test));
    }
}

/// An error that shows what was said unless `found` is true.
pub fn expect(what: &str, found: bool, said: &Said) -> Outcome {
    if found { Ok(()) } else { Err(format!("not found: {what}, in:\n{}", said.text)) }
}
