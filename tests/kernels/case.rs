//! Running a case and checking all that can be checked.

use crate::machine::Machine;
use cuda_std::tensor_map::ALIGNMENT;
use ndarray::Array2;
use regemm::verify::{Case, Operands, compare, rng};
use regemm::{Accumulator, Element, KernelInfo, ndarray};

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

/// The case in the layouts of the kernel, and where it makes bulk copies with gaps that are at least as large and make them possible.
fn fitting<T>(case: Case, kernel: &KernelInfo) -> Case {
    let Case { m, n, k, mut gaps, .. } = case;
    let layouts = kernel.layouts;
    if kernel.boxes.is_some() {
        let whole = ALIGNMENT as usize / size_of::<T>();
        let (_, cols_of_a) = layouts.a.stored(m, k);
        let (_, cols_of_b) = layouts.b.stored(k, n);
        for ((left, right), cols) in gaps.iter_mut().zip([cols_of_a, cols_of_b]) {
            *left = left.next_multiple_of(whole);
            let inside = *left + cols;
            *right = (inside + *right).next_multiple_of(whole) - inside;
        }
    }
    Case { layouts, gaps, ..case }
}

/// Runs a case in the layouts of the kernel with operands of its own seed; every element, the canaries around D and its gaps must be right.
pub fn check<T: TestElement>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Array2<T>, String> {
    check_with(case, machine, kernel, |_| {})
}

/// As [`check`], after a change to the operands.
pub fn check_with<T: TestElement>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
    change: impl FnOnce(&mut Operands<T>),
) -> Result<Array2<T>, String> {
    let case = fitting::<T>(case, kernel);
    let failed = |why: String| format!("{case}: {why}");
    let seed = (case.m << 20 | case.n << 10 | case.k) as u64;
    let mut operands = case.operands::<T>(&mut rng(seed, 0));
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
    Ok(result.d)
}

/// The bits of a checked result.
pub fn bits<T: TestElement>(
    case: Case,
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Result<Vec<u64>, String> {
    Ok(check::<T>(case, machine, kernel)?.iter().map(|x| x.bits()).collect())
}
