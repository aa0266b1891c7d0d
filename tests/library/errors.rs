//! Every error that can be provoked without a GPU, and what its message says.

use crate::{integers, kernel};
use regemm::ndarray::Array2;
use regemm::{
    BatchView, BatchViewMut, Device, DeviceSpec, Error, Gemm, KernelChoice, MatrixView,
    MatrixViewMut, Operand, Shape, WorkspaceSize, matmul,
};
use std::num::NonZeroU32;

/// Asserts that a message has all these parts: what was wrong and what would be right.
fn says(error: &Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is missing: {message}");
    }
}

fn zeros(rows: usize, cols: usize) -> Array2<f32> {
    Array2::zeros((rows, cols))
}

#[test]
fn factors_that_do_not_fit() {
    let error = matmul(&Device::sim(), &zeros(2, 4).view(), &zeros(3, 5).view()).unwrap_err();
    let expected = Shape { rows: 4, cols: 5 };
    assert!(
        matches!(error, Error::ShapeMismatch { operand: Operand::B, expected: e, .. } if e == expected)
    );
    says(&error, &["B is 3 x 5", "4 x 5", "A is 2 x 4", "4 rows"]);
}

#[test]
fn results_and_addends_that_do_not_fit() {
    let device = Device::sim();
    let a = device.matrix::<f32>(2, 4).unwrap();
    let b = device.matrix::<f32>(4, 5).unwrap();
    let c = device.matrix::<f32>(5, 2).unwrap();
    let mut d = device.matrix::<f32>(2, 5).unwrap();
    let mut wrong = device.matrix::<f32>(2, 6).unwrap();
    says(&Gemm::new(&a, &b).run(&mut wrong).unwrap_err(), &["D is 2 x 6", "2 x 5", "B is 4 x 5"]);
    says(&Gemm::new(&a, &b).c(1.0, &c).run(&mut d).unwrap_err(), &["C is 5 x 2", "2 x 5"]);
    // What is wrong is wrong even if it would not be read.
    says(&Gemm::new(&a, &b).c(0.0, &c).run(&mut d).unwrap_err(), &["C is 5 x 2"]);
}

#[test]
fn a_result_without_elements_is_validated_too() {
    let device = Device::sim();
    let a = device.matrix::<f32>(0, 4).unwrap();
    let b = device.matrix::<f32>(3, 5).unwrap();
    let mut d = device.matrix::<f32>(0, 5).unwrap();
    says(&Gemm::new(&a, &b).run(&mut d).unwrap_err(), &["B is 3 x 5"]);
}

#[test]
fn a_bias_of_the_wrong_length() {
    let device = Device::sim();
    let a = device.matrix::<f32>(2, 4).unwrap();
    let b = device.matrix::<f32>(4, 5).unwrap();
    let mut d = device.matrix::<f32>(2, 5).unwrap();
    let bias = device.vector(&[0.0f32; 3]).unwrap();
    let error = Gemm::new(&a, &b).bias_per_column(&bias).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::BiasLength { found: 3, expected: 5, axis: "column" }));
    says(&error, &["3 elements", "5", "each column of D"]);
    let error = Gemm::new(&a, &b).bias_per_row(&bias).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::BiasLength { found: 3, expected: 2, axis: "row" }));
}

#[test]
fn leading_dimensions_that_are_too_small() {
    let device = Device::sim();
    let errors = [
        device.matrix_with_ld::<f32>(3, 4, 3).unwrap_err(),
        device.upload_slice(&[0.0f32; 12], 3, 4, 3).unwrap_err(),
        // SAFETY: refused before anything is accessed.
        unsafe { MatrixView::<f32>::from_raw(&device, 256, 3, 4, 3) }.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::LeadingDimension { ld: 3, cols: 4 }));
        says(&error, &["3", "4 elements", "at least 4"]);
    }
}

#[test]
fn memory_that_the_host_does_not_have() {
    let device = DeviceSpec::Sim;
    let error = Error::OutOfMemory { device, requested: 2_048_000_000, free: 67_695_476_736 };
    says(&error, &["the host could not give the simulator 2048000000 bytes"]);
    let error = Device::sim_with_memory(1000).matrix::<f32>(16, 16).unwrap_err();
    says(&error, &["sim has no room for 1024 bytes: 1000 bytes are free"]);
}

#[test]
fn slices_of_the_wrong_length() {
    let device = Device::sim();
    let error = device.upload_slice(&[0.0f32; 13], 3, 4, 5).unwrap_err();
    assert!(matches!(error, Error::SliceLength { found: 13, needed: 14, .. }));
    says(&error, &["13 elements", "3 x 4", "leading dimension 5", "14"]);
    let mut matrix = device.matrix_with_ld::<f32>(3, 4, 5).unwrap();
    for len in [14, 16] {
        let error = matrix.write_raw(&vec![0.0; len]).unwrap_err();
        assert!(matches!(error, Error::SliceLength { needed: 15, .. }));
    }
}

#[test]
fn arrays_of_another_shape() {
    let mut matrix = Device::sim().matrix::<f32>(3, 4).unwrap();
    let error = matrix.copy_from(&zeros(4, 3).view()).unwrap_err();
    says(&error, &["the array is 4 x 3", "3 x 4"]);
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "a range that runs backwards is one of the errors")]
fn ranges_outside_the_matrix() {
    let device = Device::sim();
    let mut matrix = device.matrix::<f32>(3, 4).unwrap();
    let view = matrix.view();
    says(&view.slice(1..4, 0..1).unwrap_err(), &["rows 1..4", "3 rows"]);
    says(&view.slice(0..3, 5..5).unwrap_err(), &["columns 5..5", "4 columns"]);
    says(&view.slice(2..1, 0..1).unwrap_err(), &["rows 2..1"]);
    assert!(view.slice(0..usize::MAX, 0..1).is_err());
    assert!(matrix.view_mut().slice(0..4, 0..4).is_err());
    assert!(matrix.view_mut().split_at_row(4).is_err());
    assert!(matrix.view_mut().split_at_col(5).is_err());
}

#[test]
fn sizes_that_overflow() {
    let device = Device::sim();
    let huge = usize::MAX / 2;
    for (rows, cols) in [(huge, huge), (2, huge), (huge, 2), (0, huge), (huge, 0), (1, huge / 2)] {
        let error = device.matrix::<f64>(rows, cols).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
        says(&error, &["f64"]);
    }
    assert!(matches!(
        device.upload_slice(&[0.0f32], huge, 1, huge),
        Err(Error::SizeOverflow { .. })
    ));
    // SAFETY: refused before anything is accessed.
    let view = unsafe { MatrixView::<f32>::from_raw(&device, u64::MAX - 3, 1, 4, 4) };
    let error = view.unwrap_err();
    assert!(
        matches!(error, Error::AddressOverflow { address, bytes: 16 } if address == u64::MAX - 3)
    );
    says(&error, &["16 bytes", "0xfffffffffffffffc"]);
}

/// A kernel that follows such an address is at fault, and a GPU's context is lost with it.
#[test]
fn addresses_between_elements() {
    let device = Device::sim();
    // SAFETY: refused before anything is accessed.
    let errors = unsafe {
        [
            MatrixView::<f32>::from_raw(&device, 258, 4, 4, 4).map(drop).unwrap_err(),
            MatrixViewMut::<f32>::from_raw(&device, 258, 4, 4, 4).map(drop).unwrap_err(),
            BatchView::<f32>::from_raw(&device, 258, 2, (4, 4), 4, 16).map(drop).unwrap_err(),
            BatchViewMut::<f32>::from_raw(&device, 258, 2, (4, 4), 4, 16).map(drop).unwrap_err(),
        ]
    };
    for error in errors {
        assert!(matches!(error, Error::Misaligned { address: 258, .. }), "{error}");
        says(&error, &["0x102", "no multiple of 4", "f32"]);
    }
    // SAFETY: nothing is accessed.
    unsafe { MatrixView::<regemm::f16>::from_raw(&device, 258, 4, 4, 4) }.unwrap();
}

#[test]
fn dimensions_that_are_too_large() {
    let device = Device::sim();
    let limit = i32::MAX as usize;
    let a = device.matrix::<f32>(limit + 1, 0).unwrap();
    let b = device.matrix::<f32>(0, 0).unwrap();
    let mut d = device.matrix::<f32>(limit + 1, 0).unwrap();
    let error = Gemm::new(&a, &b).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::DimensionTooLarge { name: "m", .. }));
    says(&error, &["m = 2147483648", "2147483647"]);
}

#[test]
fn more_memory_than_there_is() {
    let device = Device::sim_with_memory(1 << 20);
    let kept = device.matrix::<f32>(256, 256).unwrap();
    let error = device.matrix::<f32>(512, 512).unwrap_err();
    let Error::OutOfMemory { device: DeviceSpec::Sim, requested, free } = error else {
        panic!("{error}")
    };
    assert_eq!((requested, free), (1 << 20, (1 << 20) - (256 << 10)));
    says(&error, &["sim", "1048576", "786432"]);
    assert_eq!(kept.to_vec().unwrap().len(), 256 * 256);
}

#[test]
fn operands_on_different_devices() {
    let (here, there) = (Device::sim(), Device::sim());
    let a = here.matrix::<f32>(2, 2).unwrap();
    let other = there.matrix::<f32>(2, 2).unwrap();
    let bias = there.vector(&[0.0f32; 2]).unwrap();
    let mut d = here.matrix::<f32>(2, 2).unwrap();
    let mut elsewhere = there.matrix::<f32>(2, 2).unwrap();
    let stream = there.stream().unwrap();
    let found = [
        (Operand::B, Gemm::new(&a, &other).run(&mut d)),
        (Operand::C, Gemm::new(&a, &a).c(1.0, &other).run(&mut d)),
        (Operand::Bias, Gemm::new(&a, &a).bias_per_row(&bias).run(&mut d)),
        (Operand::D, Gemm::new(&a, &a).run(&mut elsewhere)),
        (Operand::Stream, Gemm::new(&a, &a).enqueue(&stream, &mut d)),
    ];
    for (operand, result) in found {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::DeviceMismatch { operand: found, .. } if found == operand),
            "{error}"
        );
        says(&error, &[&operand.to_string(), "sim", "each simulator has its own memory"]);
    }
    // A clone is the same device.
    let clone = here.clone();
    let b = clone.matrix::<f32>(2, 2).unwrap();
    Gemm::new(&a, &b).run(&mut d).unwrap();
}

#[test]
fn kernels_that_do_not_exist_or_do_not_fit() {
    let device = Device::sim();
    let a = device.upload(&integers(2, 2, 0).view()).unwrap();
    let mut d = device.matrix::<f32>(2, 2).unwrap();
    let mut run = |name: &str| {
        Gemm::new(&a, &a).kernel(KernelChoice::Named(name.into())).run(&mut d).unwrap_err()
    };
    let error = run("niave");
    assert!(matches!(&error, Error::UnknownKernel { near, .. } if near.contains(&"naive")));
    says(&error, &["`niave`", "did you mean naive"]);
    let error = run("naive_f64");
    assert!(matches!(error, Error::KernelDtype { .. }));
    says(&error, &["naive_f64", "f64", "f32"]);
}

#[test]
fn a_kernel_that_breaks_a_rule_is_reported_by_the_simulator() {
    let device = Device::sim();
    let a = device.upload(&integers(4, 4, 0).view()).unwrap();
    let mut d = device.matrix::<f32>(4, 4).unwrap();
    // SAFETY: the simulator checks every access, and there is no memory at this address.
    let nowhere = unsafe { MatrixView::<f32>::from_raw(&device, 256, 4, 4, 4) }.unwrap();
    let error = Gemm::new(nowhere, &a).kernel(kernel()).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::Simulator(_)), "{error}");
    says(&error, &["naive_f32"]);
}

/// Blocks that share sums leave signals behind where one of them fails, and the next product has the same memory for
/// its own.
#[test]
fn a_kernel_that_fails_leaves_nothing_to_the_next_one() {
    let device = Device::sim();
    let (m, n, k) = (130, 260, 300);
    let (a, b) = (integers(m, k, 1), integers(k, n, 2));
    let expected = a.dot(&b);
    let (a, b) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let mut d = device.matrix::<f32>(m, n).unwrap();
    // SAFETY: the simulator checks every access, and there is no memory at this address.
    let nowhere = unsafe { MatrixView::<f32>::from_raw(&device, 256, m, n, n) }.unwrap();
    let given = device.workspace(WorkspaceSize {
        partial_bytes: 1 << 22,
        copy_bytes: 1 << 22,
        signals: 1 << 10,
    });
    let given = given.unwrap();
    for name in ["stream_k64", "stream_k64_bulk"] {
        for workspace in [None, Some(&given)] {
            let product = || {
                let slices = NonZeroU32::new(7).unwrap();
                let gemm =
                    Gemm::new(&a, &b).kernel(KernelChoice::Named(name.into())).slices(slices);
                workspace.map_or(gemm.clone(), |given| gemm.workspace(given))
            };
            let error = product().c(1.0, nowhere).run(&mut d).unwrap_err();
            assert!(matches!(error, Error::Simulator(_)), "{error}");
            product().run(&mut d).unwrap();
            assert_eq!(d.to_array().unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn errors_can_travel() {
    fn check<E: std::error::Error + Clone + Send + Sync + 'static>(_: &E) {}
    let error = "gpu".parse::<DeviceSpec>().unwrap_err();
    check(&error);
    says(&error, &["`gpu`", "auto", "sim", "cuda:N"]);
}
