//! Running a case and checking all that can be checked.

use crate::machine::Machine;
use ndarray::Array2;
use regemm::verify::{Case, Operands, Outcome, compare, rng};
use regemm::{Accumulator, Element, KernelInfo, Yields, ndarray};

/// An element whose bits can be compared.
pub trait TestElement: Element {
    fn bits(self) -> u64;
}

macro_rules! test_element {
    ($($t:ty),*) => {$(
        impl TestElement for $t {
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}
test_element!(f32, f64, regemm::f16, regemm::bf16);

/// NaN of an element type.
pub fn nan<T: Element>() -> T {
    T::narrow(T::Acc::constant(f64::NAN))
}

/// Runs a case in the layouts of the kernel, with gaps that need not be repacked, and with operands of its own seed;
/// every element, the canaries around D and its gaps must be right.
pub fn check<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Array2<D>, String> {
    check_with::<T, D>(case, machine, kernel, |_| {})
}

/// As [`check`], with A and B where the case says, so that kernels which make bulk copies have to repack them.
pub fn check_in_place<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Outcome<D>, String> {
    let case = Case { layouts: kernel.layouts, ..case };
    run::<T, D>(case, machine, kernel, |_| {})
}

/// As [`check`], after a change to the operands.
pub fn check_with<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
    change: impl FnOnce(&mut Operands<T, D>),
) -> Result<Array2<D>, String> {
    Ok(run(case.fitted::<T>(kernel), machine, kernel, change)?.d)
}

/// As [`check`], with what is known of how the result was computed.
pub fn run_fitted<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Outcome<D>, String> {
    run::<T, D>(case.fitted::<T>(kernel), machine, kernel, |_| {})
}

fn run<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
    change: impl FnOnce(&mut Operands<T, D>),
) -> Result<Outcome<D>, String> {
    let failed = |why: String| format!("{case}: {why}");
    let seed = (case.m << 20 | case.n << 10 | case.k) as u64;
    let mut operands = case.operands_of::<T, D>(&mut rng(seed, 0));
    change(&mut operands);
    let expected = case.reference(&operands).map_err(|error| failed(error.to_string()))?;
    let result = case
        .upload(&machine.device, &operands)
        .and_then(|uploaded| uploaded.run(kernel))
        .map_err(|error| failed(error.to_string()))?;
    if let Some(stray) = result.stray {
        return Err(failed(stray.to_string()));
    }
    let comparison = compare(&result.d.view(), &expected);
    if !comparison.pass() || comparison.elements != case.count() * case.m * case.n {
        return Err(failed(format!("{comparison:?}")));
    }
    Ok(result)
}

/// The bits of a checked result.
pub fn bits<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Vec<u64>, String> {
    Ok(check::<T, D>(case, machine, kernel)?.iter().map(|x| x.bits()).collect())
}
