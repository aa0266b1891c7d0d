//! One suite for every kernel of the table: on the simulator everywhere, and on the GPU as well where there is one.
//!
//! Tests are made at run time, one for each machine, kernel and theme: `sim::double_buffered_f32::edges`. Names filter as
//! usual: `cargo test --test kernels -- cuda:0 f16`. The last line says what ran where; with `REGEMM_REQUIRE_GPU=1` a
//! missing GPU is a failure.
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
    let gpu = machines.gpu_requirement();
    trials.push(Trial::test("gpu_is_there_if_required", move || gpu.map_err(Failed::from)));

    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        println!("{}", machines.summary());
    }
    conclusion.exit();
}

fn add_kernel<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    trials: &mut Vec<Trial>,
    machine: &Machine,
    kernel: &'static KernelInfo,
) {
    for (theme, test) in themes::of::<T, D>(kernel) {
        let name = format!("{}::{}::{theme}", machine.name, kernel.name);
        let machine = machine.clone();
        trials.push(Trial::test(name, move || {
            machine.count_test();
            test(&machine, kernel).map_err(Failed::from)
        }));
    }
}
