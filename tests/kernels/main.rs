//! One suite for every kernel of the table: on the simulator everywhere, and on the GPU as well where there is one.
//!
//! Tests are made at run time, one for each machine, kernel and theme: `sim::double_buffered_f32::edges`. Names filter as
//! usual: `cargo test --test kernels -- cuda:0 f16`. The last line says what ran where; with `REGEMM_REQUIRE_GPU=1` a
//! missing GPU is a failure. On the simulator kernels of bf16 are tested by those themes alone that are about values: in all else they are
//! the same code as their twins of f16, which run all of them. On a GPU every kernel runs every theme.
//!
//! | file | what it holds |
//! |---|---|
//! | `machine.rs` | the devices that tests run on |
//! | `case.rs` | running a case and checking all that can be checked |
//! | `themes.rs` | the tests of a kernel |

mod case;
mod machine;
mod themes;

use case::TestElement;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machine;
use regemm::{Dtype, KernelInfo, Yields, bf16, f16};

fn main() {
    let arguments = Arguments::from_args();
    let machines = machine::all();
    let mut trials = Vec::new();
    for machine in machines.available() {
        for kernel in regemm::kernels::kernels() {
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
    twins_are_there(&mut trials);
    let gpu = machines.gpu_requirement();
    trials.push(Trial::test("gpu_is_there_if_required", move || gpu.map_err(Failed::from)));

    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        println!("{}", machines.summary());
    }
    conclusion.exit();
}

/// Every kernel of bf16 has a twin of f16, with the same tiles, which runs the themes that it leaves out.
fn twins_are_there(trials: &mut Vec<Trial>) {
    trials.push(Trial::test("kernels_of_bf16_have_twins", || {
        let kernels = regemm::kernels::kernels();
        for kernel in kernels.iter().filter(|kernel| kernel.dtype == Dtype::Bf16) {
            let name = kernel.name.replace("bf16", "f16");
            let is_twin = |twin: &&KernelInfo| {
                twin.name == name && (twin.tile, twin.layouts) == (kernel.tile, kernel.layouts)
            };
            if !kernels.iter().any(|twin| is_twin(&twin)) {
                return Err(Failed::from(format!("{} has no twin {name}", kernel.name)));
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
    // On the simulator, which takes its time, the other themes are left to the kernel's twin of f16.
    let all = !machine.is_simulator() || kernel.dtype != Dtype::Bf16;
    for (theme, test) in themes::of::<T, D>(kernel) {
        if !all && !themes::is_about_values(theme) {
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
