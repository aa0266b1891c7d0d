//! Random cases.

use crate::case::{TestElement, check_in_place};
use crate::machine::Machine;
use crate::themes::{Outcome, leaves_cases};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use regemm::verify::{Addend, BatchCase, Case, Elements};
use regemm::{Activation, BiasAxis, KernelInfo, Layouts, Precision, Yields};
use std::num::NonZeroU32;

/// Any case; the layouts are the kernel's to say.
fn any_case() -> impl Strategy<Value = Case> {
    let sizes = (0..150_usize, 0..150_usize, 0..80_usize);
    let gaps = proptest::array::uniform4((0..9_usize, 0..9_usize));
    let factors = (
        prop_oneof![Just(0.0), Just(1.0), -2.0..2.0_f64],
        prop_oneof![Just(0.0), Just(1.0), -2.0..2.0_f64],
        prop_oneof![Just(Addend::None), Just(Addend::Matrix), Just(Addend::Same)],
    );
    let epilogue = (
        prop_oneof![Just(BiasAxis::None), Just(BiasAxis::Column), Just(BiasAxis::Row)],
        proptest::sample::select(&Activation::ALL[..]),
        0.0..1.0_f64,
    );
    let elements =
        prop_oneof![Just(Elements::Normal), Just(Elements::Uniform), Just(Elements::WithNonFinite)];
    let batch = proptest::option::weighted(0.25, (0..4_usize, any::<[bool; 4]>()));
    let batch_and_slices = (batch, 0..5_u32);
    // Bulk copies take D and C in half of the cases: see `whole_rows`.
    let places = (gaps, any::<bool>());
    (sizes, places, factors, epilogue, elements, batch_and_slices).prop_map(
        |(
            (m, n, k),
            (gaps, has_whole_rows),
            (alpha, beta, addend),
            (bias, activation, slope),
            elements,
            (batch, slices),
        )| {
            let case = Case {
                m,
                n,
                k,
                alpha,
                beta,
                addend,
                bias,
                activation,
                slope,
                elements,
                layouts: Layouts::NN,
                gaps,
                batch: batch.map(|(count, shared)| BatchCase { count, shared }),
                precision: Precision::Exact,
                slices: NonZeroU32::new(slices),
            };
            if has_whole_rows { whole_rows(case) } else { case }
        },
    )
}

/// A case as wide as the next whole vectors of any type, with gaps of such: all matrices as aligned as bulk copies want
/// C and D.
fn whole_rows(case: Case) -> Case {
    let whole = |size: usize| size.next_multiple_of(8);
    let gaps = case.gaps.map(|(left, right)| (whole(left), whole(right)));
    Case { n: whole(case.n), gaps, ..case }
}

/// Random shapes, places, factors and epilogues, others every time; a failing case is shrunk to a small one.
pub fn random_cases<T: TestElement + Yields<D>, D: TestElement<Acc = T::Acc>>(
    machine: &Machine,
    kernel: &'static KernelInfo,
) -> Outcome {
    let cases = if leaves_cases(machine, kernel) { 8 } else { 24 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&any_case(), |case| {
            check_in_place::<T, D>(case, machine, kernel).map(drop).map_err(TestCaseError::fail)
        })
        .map_err(|error| error.to_string())
}
