//! Factors that are kept in halves: the bits that they give, what is not launched for them, and what they are refused
//! for.

use super::{assert_right, devices, random, stored};
use ndarray::{Array2, s};
use regemm::verify::Problem;
use regemm::{
    Computed, Device, Error, Factor, Gemm, Layout, Layouts, Matrix, Precision, Report, Result,
    SplitMatrix,
};

fn run(
    device: &Device,
    (a, b): (Factor<'_, f32>, Factor<'_, f32>),
    precision: Precision,
) -> (Report, Array2<f32>) {
    let mut d = device.matrix(a.rows(), b.cols()).unwrap();
    let report = Gemm::new(a, b).precision(precision).auto_at_any_size().run(&mut d).unwrap();
    (report, d.to_array().unwrap())
}

fn bits(d: &Array2<f32>) -> Vec<u32> {
    d.iter().map(|x| x.to_bits()).collect()
}

/// Bytes that all kernels of a product stored, where they are counted.
fn stored_bytes(report: &Report) -> Option<u64> {
    Some(report.counters.as_ref()?.global_store_bytes)
}

/// What the launch before the product stores of a factor: its halves, in rows of whole chunks, and what is known of its
/// lines.
fn split_bytes(stored: &Matrix<f32>, across: bool) -> u64 {
    let (rows, cols) = (stored.rows() as u64, stored.cols() as u64);
    let lines = if across { cols } else { rows };
    rows * cols.next_multiple_of(8) * 4 + lines * 2
}

#[test]
fn kept_halves_give_the_same_bits_and_are_not_made_again() -> Result<()> {
    for device in devices() {
        for (layouts, (m, n, k)) in
            Layouts::ALL.into_iter().zip([(30, 41, 50), (40, 31, 70), (9, 140, 33), (130, 7, 65)])
        {
            let (a, b) = (random(21, m, k), random(22, k, n));
            let of_a = device.upload(&stored(&a, layouts.a).view())?;
            let of_b = device.upload(&stored(&b, layouts.b).view())?;
            let (plain_a, plain_b) =
                (Factor::stored(&of_a, layouts.a), Factor::stored(&of_b, layouts.b));
            let (kept_a, kept_b) = (device.split_left(plain_a)?, device.split_right(plain_b)?);
            assert_eq!((kept_a.rows(), kept_a.cols(), kept_b.cols()), (m, k, n));
            let (plain, expected) = run(&device, (plain_a, plain_b), Precision::Split);
            let bytes_a = split_bytes(&of_a, layouts.a == Layout::Transposed);
            let bytes_b = split_bytes(&of_b, layouts.b == Layout::RowMajor);
            for (a, b, spared) in [
                (Factor::from(&kept_a), plain_b, bytes_a),
                (plain_a, Factor::from(&kept_b), bytes_b),
                (Factor::from(&kept_a), Factor::from(&kept_b), bytes_a + bytes_b),
                (plain_a.with_halves(&kept_a)?, plain_b.with_halves(&kept_b)?, bytes_a + bytes_b),
            ] {
                for _ in 0..2 {
                    let (report, d) = run(&device, (a, b), Precision::Split);
                    assert!(bits(&d) == bits(&expected), "{layouts}");
                    let found = stored_bytes(&report);
                    assert_eq!(found, stored_bytes(&plain).map(|all| all - spared), "{layouts}");
                }
            }
            assert_right(
                Problem { precision: Precision::Split, ..Problem::product(a.view(), b.view()) },
                &expected,
            );
        }
    }
    Ok(())
}

/// They have memory of their own, and need none of a workspace's.
#[test]
fn what_they_were_made_of_may_go() -> Result<()> {
    for device in devices() {
        let (a, b) = (random(23, 20, 40), random(24, 40, 30));
        let on_device_b = device.upload(&b.view())?;
        let mut on_device_a = device.upload(&a.view())?;
        let kept_a = device.split_left(&on_device_a)?;
        let (_, expected) =
            run(&device, ((&on_device_a).into(), (&on_device_b).into()), Precision::Split);
        on_device_a.copy_from(&(&a * 2.0).view())?;
        drop(on_device_a);
        let kept_b = device.split_right(&on_device_b)?;
        drop(on_device_b);
        let (_, d) = run(&device, ((&kept_a).into(), (&kept_b).into()), Precision::Split);
        assert_eq!(bits(&d), bits(&expected));
        let mut d = device.matrix(20, 30)?;
        let gemm = Gemm::new(&kept_a, &kept_b).precision(Precision::Split);
        assert_eq!(gemm.workspace_size(&mut d)?.copy_bytes, 0);
    }
    Ok(())
}

#[test]
fn the_transpose_of_one_side_is_the_other() -> Result<()> {
    for device in devices() {
        let x = random(25, 36, 48);
        let on_device = device.upload(&x.view())?;
        let left = device.split_left(&on_device)?;
        let (_, expected) = run(&device, ((&on_device).into(), on_device.t()), Precision::Split);
        let (_, d) = run(&device, ((&left).into(), left.t()), Precision::Split);
        assert_eq!(bits(&d), bits(&expected));
        let right = device.split_right(&on_device)?;
        let (_, expected) = run(&device, (on_device.t(), (&on_device).into()), Precision::Split);
        let (_, d) = run(&device, (right.t(), (&right).into()), Precision::Split);
        assert_eq!(bits(&d), bits(&expected));
    }
    Ok(())
}

#[test]
fn batches_are_kept_as_well() -> Result<()> {
    for device in devices() {
        let a = random(26, 3 * 20, 40).into_shape_with_order((3, 20, 40)).unwrap();
        let b = random(27, 3 * 40, 33).into_shape_with_order((3, 40, 33)).unwrap();
        let (batch_a, batch_b) = (device.upload_batch(&a.view())?, device.upload_batch(&b.view())?);
        let one_b = device.upload(&b.slice(s![1, .., ..]))?;
        let (kept_a, kept_b) = (device.split_left(&batch_a)?, device.split_right(&batch_b)?);
        let kept_one = device.split_right(&one_b)?;
        assert_eq!((kept_a.count(), kept_one.count()), (Some(3), None));
        let run = |a: Factor<'_, f32>, b: Factor<'_, f32>| -> Result<Vec<u32>> {
            let mut d = device.batch(3, 20, 33)?;
            Gemm::new(a, b).precision(Precision::Split).run(&mut d)?;
            Ok(d.to_array()?.iter().map(|x: &f32| x.to_bits()).collect())
        };
        let expected = run((&batch_a).into(), (&batch_b).into())?;
        assert!(run((&kept_a).into(), (&kept_b).into())? == expected);
        assert!(run((&batch_a).into(), (&kept_b).into())? == expected);
        let expected = run((&batch_a).into(), (&one_b).into())?;
        assert!(run((&kept_a).into(), (&kept_one).into())? == expected);
    }
    Ok(())
}

/// The marks of halves that are kept stay with them, those of others do not.
#[test]
fn beside_f32_they_decide_as_well() -> Result<()> {
    for device in devices() {
        let (a, mut b) = (random(28, 20, 128), random(29, 128, 24));
        let good = device.upload(&b.view())?;
        b[[3, 4]] = f32::INFINITY;
        let bad = device.upload(&b.view())?;
        let a = device.upload(&a.view())?;
        let (kept_good, kept_bad) = (device.split_right(&good)?, device.split_right(&bad)?);
        for _ in 0..2 {
            for (b, kept, way) in
                [(&good, &kept_good, Precision::Split), (&bad, &kept_bad, Precision::Exact)]
            {
                let with_halves = Factor::from(b).with_halves(kept)?;
                let (report, d) = run(&device, ((&a).into(), with_halves), Precision::Auto);
                assert_eq!(report.computed, Computed::In(way));
                let (_, plain) = run(&device, ((&a).into(), b.into()), Precision::Auto);
                assert_eq!(bits(&d), bits(&plain));
            }
        }
        let (report, _) = run(
            &device,
            ((&a).into(), Factor::from(&bad).with_halves(&kept_bad)?),
            Precision::Exact,
        );
        assert!(!report.kernel.takes_halves(), "what is not needed does no harm");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let device = Device::sim();
    let matrix = device.matrix::<f32>(64, 64)?;
    let mut d = device.matrix(64, 64)?;
    let (left, right) = (device.split_left(&matrix)?, device.split_right(&matrix)?);
    for precision in [Precision::Exact, Precision::Fast, Precision::Auto] {
        let error = Gemm::new(&left, &right).precision(precision).run(&mut d).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with(&format!("precision {precision}")), "{said}");
        assert!(said.contains("halves alone") && said.contains("with_halves"), "{said}");
    }
    let mut refused = |a: Factor<'_, f32>, b: Factor<'_, f32>, operand: &str| {
        let error = Gemm::new(a, b).precision(Precision::Split).run(&mut d).unwrap_err();
        assert!(matches!(error, Error::Halves { .. }), "{error}");
        assert!(error.to_string().contains(&format!("halves of {operand} do not fit")), "{error}");
    };
    refused((&right).into(), (&matrix).into(), "A");
    refused((&matrix).into(), (&left).into(), "B");
    refused(left.t(), (&matrix).into(), "A");
    let misfit = |halves: &SplitMatrix| Factor::from(&matrix).with_halves(halves).map(drop);
    let small = device.matrix::<f32>(64, 63)?;
    let elsewhere = Device::sim().matrix::<f32>(64, 64)?;
    for halves in [device.split_left(&small)?, elsewhere.device().split_left(&elsewhere)?] {
        assert!(matches!(misfit(&halves), Err(Error::Halves { .. })));
    }
    assert!(matches!(device.split_left(&left), Err(Error::Halves { .. })));
    // Halves are no f32, which other precisions would take them for.
    let error = Factor::from(&right).with_halves(&right).unwrap_err();
    assert!(matches!(error, Error::Halves { .. }), "{error}");
    assert!(error.to_string().contains("give the matrix of f32"), "{error}");
    let error = device.split_left(&device.matrix::<f32>(1 << 31, 0)?).unwrap_err().to_string();
    assert!(error.contains("the number of rows = 2147483648") && !error.contains("product"));
    let error = device.split_left(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }));
    let text = error.to_string();
    assert!(text.starts_with("the factor is on sim but is to be split on "), "{text}");
    Ok(())
}
