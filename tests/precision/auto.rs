//! `Precision::Auto`: which way is taken for which data, that it gives what that way gives by itself, and how one
//! learns of it.

use super::{assert_right, devices, random, stored};
use ndarray::{Array2, s};
use regemm::verify::{Problem, check_batch};
use regemm::{
    Computed, Device, Error, Factor, Gemm, KernelChoice, Layouts, Matrix, Precision, Report, Result,
};

const EXACT: Computed = Computed::In(Precision::Exact);
const SPLIT: Computed = Computed::In(Precision::Split);

/// The kernel behind halves computes as this one.
const EXACT_KERNEL: &str = "warp_tiled";

/// A product with A and B in layouts.
struct Case {
    a: Matrix<f32>,
    b: Matrix<f32>,
    d: Matrix<f32>,
    layouts: Layouts,
}

impl Case {
    fn new(device: &Device, a: &Array2<f32>, b: &Array2<f32>, layouts: Layouts) -> Result<Case> {
        Ok(Case {
            a: device.upload(&stored(a, layouts.a).view())?,
            b: device.upload(&stored(b, layouts.b).view())?,
            d: device.matrix(a.nrows(), b.ncols())?,
            layouts,
        })
    }

    fn run(&mut self, precision: Precision) -> Result<(Report, Array2<f32>)> {
        let factors =
            (Factor::stored(&self.a, self.layouts.a), Factor::stored(&self.b, self.layouts.b));
        let mut gemm = Gemm::new(factors.0, factors.1).precision(precision).auto_at_any_size();
        if precision == Precision::Exact {
            gemm = gemm.kernel(KernelChoice::Named(EXACT_KERNEL.to_owned()));
        }
        let report = gemm.run(&mut self.d)?;
        Ok((report, self.d.to_array()?))
    }
}

fn bits(d: &Array2<f32>) -> Vec<u32> {
    d.iter().map(|x| x.to_bits()).collect()
}

/// Panics unless this way is taken, and gives the bits that it gives by itself.
fn check(name: &str, device: &Device, a: &Array2<f32>, b: &Array2<f32>, expected: Computed) {
    for layouts in Layouts::ALL {
        let mut case = Case::new(device, a, b, layouts).unwrap();
        let (report, d) = case.run(Precision::Auto).unwrap();
        assert_eq!(report.computed, expected, "{name}, {layouts}");
        let Computed::In(way) = expected else { unreachable!("a single product") };
        let (by_itself, same) = case.run(way).unwrap();
        assert_eq!(by_itself.computed, expected);
        assert!(bits(&d) == bits(&same), "{name}, {layouts}: not the bits of {way}");
        let problem = Problem::product(a.view(), b.view());
        assert_right(Problem { precision: Precision::Auto, ..problem }, &d);
    }
}

/// What becomes of the data by changing this element of A.
fn with(a: &Array2<f32>, at: (usize, usize), x: f32) -> Array2<f32> {
    let mut a = a.clone();
    a[at] = x;
    a
}

#[test]
fn the_data_decide() {
    for device in devices() {
        let (a, b) = (random(1, 35, 140), random(2, 140, 41));
        let check = |name, a: &Array2<f32>, b: &Array2<f32>, way| check(name, &device, a, b, way);
        check("as they mostly are", &a, &b, SPLIT);
        check("large", &(&a * 1e18), &(&b * 1e18), SPLIT);
        check("tiny", &(&a * 1e-30), &(&b * 1e-6), SPLIT);
        check("too tiny for f32", &(&a * 1e-30), &(&b * 1e-30), SPLIT);
        let mut mixed = a.clone();
        mixed.slice_mut(s![7.., ..]).mapv_inplace(|x| x * 1e30);
        mixed.slice_mut(s![..7, ..]).mapv_inplace(|x| x * 1e-30);
        check("a magnitude for each row", &mixed, &b, SPLIT);
        check("both in one row", &with(&(&a * 1e15), (3, 5), 1.2345e-15), &b, EXACT);
        check("both in one column", &a, &with(&(&b * 1e15), (5, 3), 1.2345e-15), EXACT);
        check("far apart, but not too far", &with(&a, (3, 5), 1.2345e-7), &b, SPLIT);
        check("so far apart that it is lost", &with(&a, (34, 69), 1e-20), &b, EXACT);
        check("far apart without loss", &with(&a, (34, 69), 2f32.powi(-34)), &b, SPLIT);
        check("zero", &with(&a, (0, 0), 0.0), &(&b * 0.0), SPLIT);
        check("an infinity", &with(&a, (34, 0), f32::INFINITY), &b, EXACT);
        check("NaN", &a, &with(&b, (69, 40), f32::NAN), EXACT);
        check("one subnormal element", &with(&a, (9, 9), 1e-40), &b, EXACT);
        let mut subnormal = a.clone();
        subnormal.row_mut(8).mapv_inplace(|x| x * 1e-39);
        check("a subnormal row", &subnormal, &b, EXACT);
    }
}

/// An infinity times zero and a sum of both infinities are NaN, an infinity times something is one, and all else is not
/// touched.
#[test]
fn what_is_not_finite_does_what_ieee_754_says() -> Result<()> {
    for device in devices() {
        let (mut a, mut b) = (random(3, 10, 128), random(4, 128, 12));
        (a[[2, 5]], b[[5, 0]], b[[5, 1]]) = (f32::INFINITY, 0.0, 2.0);
        let (_, d) = Case::new(&device, &a, &b, Layouts::NN)?.run(Precision::Auto)?;
        assert!(d[[2, 0]].is_nan() && d[[2, 1]] == f32::INFINITY && d[[3, 0]].is_finite());
    }
    Ok(())
}

#[test]
fn shallow_products_are_exact_and_launch_one_kernel() -> Result<()> {
    for device in devices() {
        let mut case = Case::new(&device, &random(5, 30, 127), &random(6, 127, 30), Layouts::NN)?;
        let (report, _) = case.run(Precision::Auto)?;
        assert_eq!(report.computed, EXACT);
        assert!(!report.kernel.takes_halves());
        let d = &mut case.d;
        let size = Gemm::new(&case.a, &case.b)
            .precision(Precision::Auto)
            .auto_at_any_size()
            .workspace_size(d)?;
        assert_eq!(size.copy_bytes, 0);
    }
    Ok(())
}

/// So deep that K is split where there are more than two multiprocessors. Neither launch of the way that is not taken
/// touches D, which is C as well.
#[test]
fn deep_products_leave_c_to_the_way_that_is_taken() -> Result<()> {
    for device in devices() {
        let (a, b) = (random(31, 9, 1024), random(32, 1024, 11));
        let c = random(33, 9, 11);
        for (a, expected) in [(a.clone(), SPLIT), (with(&a, (8, 1000), 1e-30), EXACT)] {
            let case = Case::new(&device, &a, &b, Layouts::NN)?;
            let run = |precision| -> Result<_> {
                let mut d = device.upload(&c.view())?;
                let gemm = Gemm::new(&case.a, &case.b).accumulate(2.0).precision(precision);
                let gemm = match precision {
                    Precision::Exact => gemm.kernel(KernelChoice::Named(EXACT_KERNEL.to_owned())),
                    _ => gemm.auto_at_any_size(),
                };
                Ok((gemm.run(&mut d)?.computed, bits(&d.to_array()?)))
            };
            let (computed, found) = run(Precision::Auto)?;
            let Computed::In(way) = expected else { unreachable!("a single product") };
            assert_eq!(computed, expected);
            assert!(found == run(way)?.1, "not the bits of {way}");
        }
    }
    Ok(())
}

/// The memory is the same, with whatever the product before left in it.
#[test]
fn marks_do_not_outlive_their_product() -> Result<()> {
    for device in devices() {
        let (a, b) = (random(7, 20, 128), random(8, 128, 20));
        let mut good = Case::new(&device, &a, &b, Layouts::NN)?;
        let mut of_a = Case::new(&device, &with(&a, (1, 1), f32::NAN), &b, Layouts::NN)?;
        let mut of_b = Case::new(&device, &a, &with(&b, (1, 1), f32::NAN), Layouts::NN)?;
        for _ in 0..2 {
            for case in [&mut of_a, &mut of_b] {
                assert_eq!(case.run(Precision::Auto)?.0.computed, EXACT);
                assert_eq!(good.run(Precision::Auto)?.0.computed, SPLIT);
            }
        }
    }
    Ok(())
}

/// D is read and written by one of both ways alone.
#[test]
fn sums_go_on_with_d() -> Result<()> {
    for device in devices() {
        let (a, b, c) = (random(9, 20, 128), random(10, 128, 24), random(11, 20, 24));
        for (a, way) in [(a.clone(), SPLIT), (with(&a, (4, 4), 3e-21), EXACT)] {
            let (on_device_a, on_device_b) = (device.upload(&a.view())?, device.upload(&b.view())?);
            let mut d = device.upload(&c.view())?;
            let gemm = Gemm::new(&on_device_a, &on_device_b).alpha(0.5).accumulate(-2.0);
            let report = gemm.precision(Precision::Auto).auto_at_any_size().run(&mut d)?;
            assert_eq!(report.computed, way);
            let problem = Problem::product(a.view(), b.view());
            let (c, alpha, beta) = (Some(c.view()), 0.5, -2.0);
            let problem = Problem { c, alpha, beta, precision: Precision::Auto, ..problem };
            assert_right(problem, &d.to_array()?);
        }
    }
    Ok(())
}

#[test]
fn each_product_of_a_batch_goes_its_own_way() -> Result<()> {
    for device in devices() {
        let mut a = random(12, 3 * 18, 129).into_shape_with_order((3, 18, 129)).unwrap();
        let b = random(13, 3 * 129, 20).into_shape_with_order((3, 129, 20)).unwrap();
        a[[1, 2, 3]] = f32::INFINITY;
        let (batch_a, batch_b) = (device.upload_batch(&a.view())?, device.upload_batch(&b.view())?);
        let mut d = device.batch(3, 18, 20)?;
        let record = device.precision_record(5)?;
        let gemm = Gemm::new(&batch_a, &batch_b).precision(Precision::Auto).auto_at_any_size();
        let report = gemm.record_precision(&record).run(&mut d)?;
        assert_eq!(report.computed, Computed::Mixed { exact: 1, split: 2 });
        assert_eq!(report.computed.to_string(), "1 products exact, 2 split");
        assert_eq!(record.of_products()?, [SPLIT, EXACT, SPLIT]);
        let problems: Vec<_> = (0..3)
            .map(|p| Problem {
                precision: Precision::Auto,
                ..Problem::product(a.slice(s![p, .., ..]), b.slice(s![p, .., ..]))
            })
            .collect();
        assert!(check_batch(&problems, &d.to_array()?.view(), 0).unwrap().pass());

        // What all products share decides for all of them.
        for (of_a, way) in [(1, EXACT), (2, SPLIT)] {
            let shared = device.upload(&a.slice(s![of_a, .., ..]))?;
            let gemm = Gemm::new(&shared, &batch_b).precision(Precision::Auto).auto_at_any_size();
            assert_eq!(gemm.run(&mut d)?.computed, way);
        }
    }
    Ok(())
}

#[test]
fn a_record_tells_of_work_on_a_stream() -> Result<()> {
    for device in devices() {
        let stream = device.stream()?;
        let record = device.precision_record(1)?;
        assert_eq!(record.computed()?, None);
        assert!(record.of_products()?.is_empty());
        let (a, b) = (random(14, 20, 128), random(15, 128, 20));
        for (a, way) in [(with(&a, (0, 3), f32::NAN), EXACT), (a, SPLIT)] {
            let (a, b) = (device.upload(&a.view())?, device.upload(&b.view())?);
            let mut d = device.matrix(20, 20)?;
            let gemm = || Gemm::new(&a, &b).record_precision(&record);
            let report =
                gemm().precision(Precision::Auto).auto_at_any_size().enqueue(&stream, &mut d)?;
            assert_eq!(report.computed, Computed::Undecided, "nobody waits");
            assert_eq!(record.computed()?, Some(way));
            // What the host decides it knows at once.
            for precision in [Precision::Exact, Precision::Split] {
                let report = gemm().precision(precision).enqueue(&stream, &mut d)?;
                assert_eq!(report.computed, Computed::In(precision));
                assert_eq!(record.of_products()?, [Computed::In(precision)]);
            }
            let report = gemm()
                .alpha(0.0)
                .precision(Precision::Auto)
                .auto_at_any_size()
                .enqueue(&stream, &mut d)?;
            assert_eq!((report.computed, record.computed()?), (EXACT, Some(EXACT)));
        }
    }
    Ok(())
}

#[test]
fn records_are_as_large_as_batches_and_on_their_device() -> Result<()> {
    let device = Device::sim();
    let (a, b) = (device.batch::<f32>(2, 8, 128)?, device.batch::<f32>(2, 128, 8)?);
    let mut d = device.batch(2, 8, 8)?;
    let gemm = || Gemm::new(&a, &b).precision(Precision::Auto).auto_at_any_size();
    let small = device.precision_record(1)?;
    let error = gemm().record_precision(&small).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::RecordTooSmall { found: 1, needed: 2 }), "{error}");
    let elsewhere = Device::sim().precision_record(2)?;
    let error = gemm().record_precision(&elsewhere).run(&mut d).unwrap_err();
    assert!(error.to_string().contains("the record of precisions"), "{error}");
    Ok(())
}

/// The halves of both factors, a mark for each of their matrices, and a note for each product.
#[test]
fn memory_can_be_given() -> Result<()> {
    let device = Device::sim();
    let (a, b) = (random(16, 30, 128), random(17, 128, 50));
    let mut case = Case::new(&device, &a, &b, Layouts::NN)?;
    let gemm = || Gemm::new(&case.a, &case.b);
    let split = gemm().precision(Precision::Split).workspace_size(&mut case.d)?;
    let size = gemm().precision(Precision::Auto).auto_at_any_size().workspace_size(&mut case.d)?;
    assert_eq!(size.copy_bytes, split.copy_bytes + 4);
    assert_eq!(size.signals, split.signals + 2);
    let workspace = device.workspace(size)?;
    let gemm = Gemm::new(&case.a, &case.b)
        .precision(Precision::Auto)
        .auto_at_any_size()
        .workspace(&workspace);
    assert_eq!(gemm.run(&mut case.d)?.computed, SPLIT);
    assert_eq!(bits(&case.d.to_array()?), bits(&case.run(Precision::Split)?.1));
    Ok(())
}

#[test]
fn an_empty_product_is_nothing_to_decide() -> Result<()> {
    let device = Device::sim();
    let record = device.precision_record(1)?;
    let (a, b) = (device.matrix::<f32>(0, 128)?, device.matrix::<f32>(128, 8)?);
    let mut d = device.matrix(0, 8)?;
    let gemm =
        Gemm::new(&a, &b).precision(Precision::Auto).auto_at_any_size().record_precision(&record);
    let report = gemm.run(&mut d)?;
    assert_eq!((report.launched, report.computed, record.computed()?), (false, EXACT, Some(EXACT)));
    Ok(())
}
