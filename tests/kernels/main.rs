//! One suite for every kernel of the table: on the simulator everywhere, and on the GPU as well where there is one.
//!
//! Tests are made at run time, one for each machine, kernel and theme: `sim::double_buffered_f32::edges`. A part of
//! names filters: `cargo test --test kernels -- cuda:0::tiled`. The last line says what ran where; with
//! `REGEMM_REQUIRE_GPU=1` a missing GPU is a failure. On the simulator, which takes its time, some themes are left to a
//! twin that is the same code there: kernels of bf16 run those alone that are about values, and leave the others to
//! their twins of f16; other layouts leave those about what becomes of sums and who sums what to their twins of
//! row-major factors; where both factors are transposed, some are left to the twins with one that is; and a kernel of
//! bf16, or with results of f32, in another layout, which has both twins, runs what mixes values and layouts. Kernels
//! whose blocks walk in clusters leave what is about values or results to those of the same tiles whose blocks are
//! alone. Of themes with many cases kernels that have a twin run only some: fewer random cases, numbers of slices and
//! operands that products of a batch share, in other layouts fewer activations, and no products without depth where
//! blocks have several tiles. A kernel of whole tiles, which ignores slices, is asked for one number of them. On a GPU
//! every kernel runs every theme with all its cases; of kernels that it cannot run there are none, and the last line
//! says of how many and why.
//!
//! | file | what it holds |
//! |---|---|
//! | `machine.rs` | the devices that tests run on |
//! | `../gpu` | whether there is a GPU, whether there has to be, and which trials there are on others |
//! | `case.rs` | running a case and checking all that can be checked |
//! | `themes.rs` | the tests of a kernel |
//! | `random.rs` | random cases |
//! | `far.rs` | operands whose elements lie far apart, on the simulator alone |
//! | `sharing.rs` | those of kernels whose blocks share tiles or take several |

mod case;
mod far;
#[path = "../gpu/mod.rs"]
mod gpu;
mod machine;
#[path = "../gpu/others.rs"]
mod others;
mod random;
mod sharing;
mod themes;

use case::TestElement;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machine;
use others::Others;
use regemm::{Dtype, KernelInfo, Layouts, Rung, Yields, bf16, f16};

fn main() {
    let arguments = Arguments::from_args();
    let machines = machine::all();
    let mut trials = Vec::new();
    for machine in machines.available() {
        for kernel in machine.kernels() {
            match (kernel.dtype, kernel.target) {
                (Dtype::F16, Dtype::F32) => add_kernel::<f16, f32>(&mut trials, machine, kernel),
                (Dtype::Bf16, Dtype::F32) => add_kernel::<bf16, f32>(&mut trials, machine, kernel),
                (Dtype::F32, _) => add_kernel::<f32, f32>(&mut trials, machine, kernel),
                (Dtype::F64, _) => add_kernel::<f64, f64>(&mut trials, machine, kernel),
                (Dtype::F16, _) => add_kernel::<f16, f16>(&mut trials, machine, kernel),
                (Dtype::Bf16, _) => add_kernel::<bf16, bf16>(&mut trials, machine, kernel),
            }
        }
    }
    far::add_trials(&mut trials);
    twins_are_there(&mut trials);
    let simulator = machines.simulator().clone();
    trials.push(Trial::test("simulator_runs_all_kernels", move || {
        if simulator.left_out().count() == 0 {
            Ok(())
        } else {
            Err(Failed::from(simulator.left_out().to_string()))
        }
    }));
    others::add_trials(
        &mut trials,
        &[("trials_are_of_kernels_that_can_run", Others::trials_are_of_kernels_that_can_run)],
    );
    let gpu = machines.gpu_requirement();
    trials.push(Trial::test("gpu_is_there_if_required", move || gpu.map_err(Failed::from)));

    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        println!("{}", machines.summary());
    }
    conclusion.exit();
}

/// Every kernel that leaves themes to a [twin](regemm::kernels::twin) has one; and it runs them, as it is not itself
/// one that leaves them.
fn twins_are_there(trials: &mut Vec<Trial>) {
    trials.push(Trial::test("themes_are_left_to_kernels_that_run_them", || {
        for kernel in regemm::kernels::kernels() {
            let twin = |name: String| regemm::kernels::kernels().iter().find(|k| k.name == name);
            let missing = |what| Err(Failed::from(format!("{} has no twin {what}", kernel.name)));
            if kernel.dtype == Dtype::Bf16 {
                let of_f16 = twin(kernel.name.replace("bf16", "f16"));
                let is_alike =
                    |t: &KernelInfo| (t.tile, t.layouts) == (kernel.tile, kernel.layouts);
                if !of_f16.is_some_and(is_alike) {
                    return missing("of f16");
                }
            }
            if has_long_results(kernel) && kernel.layouts != themes::runs_all(kernel) {
                let of_short = twin(kernel.name.trim_end_matches("_f32").to_owned());
                let is_alike = |t: &KernelInfo| {
                    (t.tile, t.layouts, t.dtype) == (kernel.tile, kernel.layouts, kernel.dtype)
                };
                if !of_short.is_some_and(is_alike) {
                    return missing("with short results");
                }
            }
            let all = themes::runs_all(kernel);
            if kernel.layouts != all {
                let runs_all = regemm::kernels::twin(kernel, all);
                let of = |k: &KernelInfo| (k.rung, k.swapped, k.target);
                if !runs_all.is_some_and(|twin| twin.layouts == all && of(twin) == of(kernel)) {
                    return missing("that runs all themes");
                }
            }
        }
        Ok(())
    }));
}

fn add_kernel<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    trials: &mut Vec<Trial>,
    machine: &Machine,
    kernel: &'static KernelInfo,
) {
    for (theme, test) in themes::of::<T, D>(kernel) {
        if machine.is_simulator() && is_left_to_twin(theme, kernel) {
            machine.count_left_to_twin();
            continue;
        }
        let name = format!("{}::{}::{theme}", machine.name, kernel.name);
        let machine = machine.clone();
        trials.push(Trial::test(name, move || {
            machine.count_test();
            test(&machine, kernel).map_err(Failed::from)
        }));
    }
}

/// Whether a kernel leaves a theme to one that is the same code in what the theme is about.
fn is_left_to_twin(theme: &str, kernel: &KernelInfo) -> bool {
    let of_type = kernel.dtype == Dtype::Bf16 && !themes::is_about_values(theme);
    let of_layouts = kernel.layouts != themes::runs_all(kernel)
        && (themes::is_about_results(theme) || themes::is_about_schedules(theme));
    let of_factors = kernel.layouts == Layouts::TT
        && themes::is_about_one_factor(theme)
        && has_twins_with_one_factor(kernel);
    let has_two = kernel.dtype == Dtype::Bf16 || has_long_results(kernel);
    let of_both = has_two && kernel.layouts != themes::runs_all(kernel);
    let in_clusters = walks_in_clusters(kernel)
        && has_twin_alone(kernel)
        && (themes::is_about_results(theme) || themes::is_about_values(theme));
    of_type
        || of_layouts
        || of_factors
        || of_both && !themes::mixes_values_and_layouts(theme)
        || in_clusters && !themes::mixes_values_and_layouts(theme)
}

/// Whether a kernel is one with results of f32, which is else the code of one whose results are as short as its
/// factors.
fn has_long_results(kernel: &KernelInfo) -> bool {
    kernel.dtype != kernel.target
}

/// Whether there are, of a kernel that takes both factors transposed, twins that take one.
fn has_twins_with_one_factor(kernel: &KernelInfo) -> bool {
    let infix = format!("_{}_", kernel.layouts.name());
    ["_tn_", "_nt_"].into_iter().all(|one| {
        let name = kernel.name.replacen(&infix, one, 1);
        regemm::kernels::kernels().iter().any(|twin| twin.name == name)
    })
}

/// Whether a kernel of warpgroups has blocks that walk over D in clusters, and is else the code of one whose blocks are
/// alone.
fn walks_in_clusters(kernel: &KernelInfo) -> bool {
    kernel.rung == Rung::Warpgroup && kernel.cluster > 1
}

/// Whether there is a kernel with the same tiles, types and layouts whose blocks are alone, or one whose tiles
/// [fit](regemm_kernels::warpgroup::fit) and may be as wide.
fn has_twin_alone(kernel: &KernelInfo) -> bool {
    let of = |k: &KernelInfo| (k.rung, k.dtype, k.target, k.layouts, k.schedule);
    let tiles = |k: &KernelInfo| (k.tile.bm, k.tile.bk, k.tile.stages);
    let may_be_as_wide = |k: &KernelInfo| {
        k.tile == kernel.tile
            || k.fits
                && tiles(k) == tiles(kernel)
                && regemm_kernels::warpgroup::fit::widths(k.tile.bn)
                    .any(|width| width == kernel.tile.bn)
    };
    let alone = |k: &KernelInfo| k.cluster == 1 && of(k) == of(kernel) && may_be_as_wide(k);
    regemm::kernels::kernels().iter().any(alone)
}
