//! `Precision::Promoted`: that kernels are chosen that take sums over to f32, that results are within its bound, which
//! others are not, and where it is refused.

use super::parts::{self, Parts};
use super::{devices, has_warpgroups, stored};
use ndarray::{Array2, Array3};
use regemm::kernels::family_name;
use regemm::verify::{Distribution, Expectation, Problem, check_batch, random_matrix, rng};
use regemm::{
    Computed, Device, Element, Error, Factor, Gemm, KernelChoice, KernelInfo, Layouts, Precision,
    Report, Result, Rung, Summation, Yields, bf16, f16,
};

/// Values of k that tensor cores add up.
const PROMOTED: usize = 256;

fn machines() -> impl Iterator<Item = Device> {
    devices().into_iter().filter(has_warpgroups)
}

fn random<T: Element>(seed: u64, rows: usize, cols: usize) -> Array2<T> {
    random_matrix(&mut rng(seed, 0), rows, cols, Distribution::Normal)
}

fn named(name: &str) -> KernelChoice {
    KernelChoice::Named(name.to_owned())
}

fn promoted<'a, T: Element>(a: &'a Array2<T>, b: &'a Array2<T>) -> Problem<'a, T, f32> {
    Problem { precision: Precision::Promoted, ..Problem::of_factors(a.view(), b.view()) }
}

fn is_right<T: Element>(problem: Problem<'_, T, f32>, d: &Array2<f32>) -> bool {
    Expectation::new(problem, 0).unwrap().check(&d.view()).unwrap().pass()
}

fn assert_promotes(kernel: &KernelInfo, k: usize) {
    let deep = k > PROMOTED;
    let summation = kernel.summation;
    let promotes = summation == Summation::Promoted;
    assert!(promotes || !deep && summation == Summation::Warpgroups, "{}, {k}", kernel.name);
}

fn all_layouts_and_sizes<T: Element<Acc = f32> + Yields<f32>>(
    sizes: &[(usize, usize, usize)],
) -> Result<()> {
    for device in machines() {
        for (seed, &(m, n, k)) in sizes.iter().enumerate() {
            let a: Array2<T> = random(seed as u64, m, k);
            let b: Array2<T> = random(seed as u64 + 100, k, n);
            for layouts in Layouts::ALL {
                let on_device_a = device.upload(&stored(&a, layouts.a).view())?;
                let on_device_b = device.upload(&stored(&b, layouts.b).view())?;
                let mut d = device.matrix::<f32>(m, n)?;
                let report = Gemm::widening(
                    Factor::stored(&on_device_a, layouts.a),
                    Factor::stored(&on_device_b, layouts.b),
                )
                .precision(Precision::Promoted)
                .run(&mut d)?;
                assert_promotes(report.kernel, k);
                assert_eq!(report.kernel.layouts, layouts);
                assert_eq!(report.computed, Computed::In(Precision::Promoted));
                let why = report.why.to_string();
                assert!(why.starts_with("of those that promote their sums: "), "{why}");
                assert!(is_right(promoted(&a, &b), &d.to_array()?), "{m} x {n} x {k}, {layouts}");
            }
        }
    }
    Ok(())
}

#[test]
fn products_of_all_layouts_and_sizes() -> Result<()> {
    let small = [(1, 1, 1), (5, 9, 7), (64, 64, 64), (1, 300, 257)];
    let deep = [(130, 72, 1024), (33, 5, 1001), (7, 129, 513), (256, 384, 264)];
    all_layouts_and_sizes::<bf16>(&[small, deep].concat())?;
    all_layouts_and_sizes::<f16>(&deep)
}

#[test]
fn views_epilogues_and_no_depth() -> Result<()> {
    for device in machines() {
        let parts = Parts::<bf16, f32>::new(&device, 589, Distribution::Normal)?;
        let mut d = device.matrix(parts::ROWS, parts::COLS)?;
        let gemm = parts.gemm()?.precision(Precision::Promoted);
        assert_promotes(gemm.clone().run(&mut d)?.kernel, 589);
        let problem = parts.problem(Precision::Promoted);
        assert!(is_right(problem, &d.to_array()?));
        gemm.alpha(0.0).run(&mut d)?;
        assert!(is_right(Problem { alpha: 0.0, ..problem }, &d.to_array()?));
        let none = device.matrix::<bf16>(4, 0)?;
        let mut d = device.matrix::<f32>(4, 4)?;
        Gemm::widening(&none, none.t()).precision(Precision::Promoted).run(&mut d)?;
        assert_eq!(d.to_array()?, Array2::<f32>::zeros((4, 4)));
    }
    Ok(())
}

/// Otherwise the simulator would take warpgroups that take turns, which promote nothing.
#[test]
fn batches_that_share_a_factor() -> Result<()> {
    for device in machines() {
        for (count, m, n, k) in [(3, 70, 41, 515), (3, 128, 120, 1024)] {
            let a: Array2<f16> = random(5, count * m, k);
            let a = a.into_shape_with_order((count, m, k)).unwrap();
            let b: Array2<f16> = random(6, k, n);
            let (batch, shared) = (device.upload_batch(&a.view())?, device.upload(&b.t())?);
            let mut d = device.batch::<f32>(count, m, n)?;
            let gemm = Gemm::widening(&batch, shared.t());
            let chosen = gemm.clone().run(&mut d)?.kernel;
            assert!(chosen.turns > 1 || !device.is_sim(), "{}", chosen.name);
            assert_promotes(gemm.precision(Precision::Promoted).run(&mut d)?.kernel, k);
            let d: Array3<f32> = d.to_array()?;
            let problem =
                |a| Problem { precision: Precision::Promoted, ..Problem::of_factors(a, b.view()) };
            let problems: Vec<_> = a.outer_iter().map(problem).collect();
            let verification = check_batch(&problems, &d.view(), 0).unwrap();
            assert!(verification.pass(), "{verification:?}");
        }
    }
    Ok(())
}

/// Where all products are positive all that is cut off has one sign. f16 has more bits to lose than bf16.
#[test]
fn the_bound_is_too_narrow_for_sums_that_are_not_taken_over() -> Result<()> {
    let (m, n, k) = (16, 8, 32768);
    let positive = |seed, rows, cols| {
        let matrix = random_matrix(&mut rng(seed, 0), rows, cols, Distribution::UnitInterval);
        matrix.mapv(|x: f32| f16::from_f32(x))
    };
    let (a, b) = (positive(1, m, k), positive(2, k, n));
    let narrow = promoted(&a, &b);
    let wide = Problem { precision: Precision::Exact, ..narrow };
    for device in machines() {
        let (on_device_a, on_device_b) = (device.upload(&a.view())?, device.upload(&b.view())?);
        let mut d = device.matrix::<f32>(m, n)?;
        let mut of = |gemm: Gemm<'_, f16, f32>| -> Result<Array2<f32>> {
            gemm.run(&mut d)?;
            d.to_array()
        };
        let gemm = Gemm::widening(&on_device_a, &on_device_b);
        // Blocks of the others share such a product, and what they add up is rounded.
        let cut_off = of(gemm.clone().kernel(named("warpgroup_fitted")))?;
        assert!(is_right(wide, &cut_off), "the bound of sums that are cut off");
        assert!(!is_right(narrow, &cut_off), "the bound of promoted sums");
        let all = regemm::kernels::kernels().iter().filter(|kernel| {
            let is_it = |name: &str| kernel.name.ends_with(name) && kernel.layouts == Layouts::NN;
            kernel.summation == Summation::Promoted && is_it("_f16_f32")
        });
        let mut found = 0;
        for kernel in all {
            let choice = KernelChoice::Info(kernel);
            let d = of(gemm.clone().kernel(choice).precision(Precision::Promoted))?;
            assert!(is_right(narrow, &d) && is_right(wide, &d), "{}", kernel.name);
            found += 1;
        }
        assert!(found > 3, "{found} kernels");
    }
    Ok(())
}

/// Sums that are subnormal lose a part of the smallest number with each instruction, of which there are more than sums
/// taken over.
#[test]
fn subnormal_sums_are_right() -> Result<()> {
    let tiny = |seed, rows, cols| {
        let matrix = random_matrix(&mut rng(seed, 0), rows, cols, Distribution::UnitInterval);
        matrix.mapv(|x: f32| bf16::from_f32(x * 2f32.powi(-73)))
    };
    let (a, b) = (tiny(1, 4, 24_000), tiny(2, 24_000, 5));
    for device in machines() {
        let (on_device_a, on_device_b) = (device.upload(&a.view())?, device.upload(&b.view())?);
        let mut d = device.matrix::<f32>(4, 5)?;
        let gemm = Gemm::widening(&on_device_a, &on_device_b).precision(Precision::Promoted);
        gemm.run(&mut d)?;
        let d = d.to_array()?;
        assert!(d.iter().all(|x| x.is_subnormal() || *x == 0.0) && d.iter().any(|x| *x != 0.0));
        assert!(is_right(promoted(&a, &b), &d));
    }
    Ok(())
}

fn refusal(result: Result<Report>) -> (Precision, &'static str, &'static str) {
    match result {
        Err(Error::Precision { precision, with, remedy }) => (precision, with, remedy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_types_are_refused() -> Result<()> {
    fn same<T: Element>(device: &Device) -> Result<Report> {
        let a = device.matrix::<T>(4, 4)?;
        Gemm::new(&a, &a).precision(Precision::Promoted).run(&mut device.matrix::<T>(4, 4)?)
    }
    let device = Device::sim();
    for result in
        [same::<f32>(&device), same::<f64>(&device), same::<f16>(&device), same::<bf16>(&device)]
    {
        let (precision, with, remedy) = refusal(result);
        assert_eq!(precision, Precision::Promoted);
        assert!(
            with.contains("element type") && remedy.contains("results of f32"),
            "{with}: {remedy}"
        );
    }
    // Nor are those of f32 for these.
    let a = device.matrix::<f16>(4, 4)?;
    let mut d = device.matrix::<f32>(4, 4)?;
    for precision in [Precision::Split, Precision::Tf32, Precision::Fast, Precision::Auto] {
        let (of, ..) = refusal(Gemm::widening(&a, &a).precision(precision).run(&mut d));
        assert_eq!(of, precision);
    }
    Ok(())
}

#[test]
fn a_kernel_or_rung_that_is_asked_for_must_promote() -> Result<()> {
    let device = Device::sim();
    let run = |choice, k| -> Result<Report> {
        let (a, b) = (device.matrix::<bf16>(4, k)?, device.matrix::<bf16>(k, 4)?);
        let gemm = Gemm::widening(&a, &b).precision(Precision::Promoted).kernel(choice);
        gemm.run(&mut device.matrix::<f32>(4, 4)?)
    };
    assert_eq!(run(named("warpgroup128"), 300)?.kernel.name, "warpgroup128_bf16_f32");
    assert_eq!(run(named("warpgroup"), PROMOTED)?.kernel.name, "warpgroup_bf16_f32");
    assert_promotes(run(KernelChoice::Rung(Rung::Warpgroup), 300)?.kernel, 300);
    for (choice, kernel) in [
        (named("warpgroup"), "warpgroup_bf16_f32"),
        (named("tensor_core"), "tensor_core"),
        (named("naive_bf16_f32"), "naive_bf16_f32"),
        (KernelChoice::Rung(Rung::TensorCore), "tensor_core"),
        (KernelChoice::Rung(Rung::Naive), "naive"),
    ] {
        let (precision, with, remedy) = refusal(run(choice, PROMOTED + 1));
        assert_eq!(precision, Precision::Promoted);
        assert!(with.starts_with(kernel) && remedy.contains("warpgroup128"), "{with}: {remedy}");
        let remedy = regemm::kernels::find("warpgroup128_bf16_f32").unwrap();
        assert_eq!(family_name(remedy), "warpgroup128");
        assert_promotes(remedy, PROMOTED + 1);
    }
    Ok(())
}

/// The same product in turn with and without: the memory of choices tells them apart.
#[test]
fn the_choice_is_its_own() -> Result<()> {
    let device = Device::sim();
    let a = device.matrix::<bf16>(4, 4)?;
    let mut d = device.matrix::<f32>(4, 4)?;
    for _ in 0..2 {
        let exact = Gemm::widening(&a, &a).run(&mut d)?;
        assert_eq!(
            (exact.kernel.rung, exact.computed),
            (Rung::Naive, Computed::In(Precision::Exact))
        );
        let report = Gemm::widening(&a, &a).precision(Precision::Promoted).run(&mut d)?;
        assert_promotes(report.kernel, 4);
    }
    Ok(())
}

#[test]
fn a_handle_asks_for_it_where_results_are_long() -> Result<()> {
    let device = Device::sim().with_precision(Precision::Promoted);
    let a = device.matrix::<bf16>(4, 300)?;
    let mut long = device.matrix::<f32>(4, 4)?;
    let report = Gemm::widening(&a, a.t()).run(&mut long)?;
    assert_eq!(report.computed, Computed::In(Precision::Promoted));
    assert_promotes(report.kernel, 300);
    let exact = Computed::In(Precision::Exact);
    assert_eq!(
        Gemm::widening(&a, a.t()).precision(Precision::Exact).run(&mut long)?.computed,
        exact
    );
    // A kernel that is named computes as it does.
    let report = Gemm::widening(&a, a.t()).kernel(named("naive")).run(&mut long)?;
    assert_eq!((report.kernel.rung, report.computed), (Rung::Naive, exact));
    // Nothing of it is left in short results, and it is not about f32 or f64.
    assert_eq!(Gemm::new(&a, a.t()).run(&mut device.matrix(4, 4)?)?.computed, exact);
    let a = device.matrix::<f32>(4, 300)?;
    assert_eq!(Gemm::new(&a, a.t()).run(&mut long)?.computed, exact);
    let a = device.matrix::<f64>(4, 300)?;
    assert_eq!(Gemm::new(&a, a.t()).run(&mut device.matrix(4, 4)?)?.computed, exact);
    // And one that is about f32 does not ask for anything here.
    let a = Device::sim().with_precision(Precision::Split).matrix::<bf16>(4, 300)?;
    let mut long = a.device().matrix::<f32>(4, 4)?;
    assert_eq!(Gemm::widening(&a, a.t()).run(&mut long)?.computed, exact);
    Ok(())
}
