//! Kernels with an epilogue of the user's own.

use crate::{expected, integers};
use cuda_std::memory::GlobalPtr;
use regemm::ndarray::Array3;
use regemm::{
    Activation, Computed, CustomKernel, Device, Epilogue, Error, Gemm, KernelChoice, Layouts,
    Linear, Precision, WorkspaceSize, bf16,
};
use regemm_kernels::ladder::naive::Naive;
use regemm_kernels::ladder::split_k::SplitK;
use regemm_kernels::ladder::tiled::Tiled;
use regemm_kernels::layout::{Nn, Nt, Tn};
use regemm_kernels::swapped::SwapAB;
use regemm_kernels::warp::tensor_core::TensorCore;
use regemm_kernels::warpgroup::Warpgroup;
use regemm_kernels::{gemm_kernels, reducers};

/// `min(sum, limit[col])`, with limits of its own for each product of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Capped {
    limits: GlobalPtr<f32>,
    stride: u64,
}

impl Epilogue<f32> for Capped {
    fn of_product(self, index: u32) -> Self {
        Capped { limits: self.limits.add(u64::from(index) * self.stride), ..self }
    }

    unsafe fn apply(&self, sum: f32, _row: u32, col: u32) -> f32 {
        // SAFETY: there is one limit for each column.
        let limit = unsafe { self.limits.add(col.into()).load() };
        if sum < limit { sum } else { limit }
    }
}

gemm_kernels! {
    /// The kernels of this test.
    KERNELS:
    capped_f32 = Naive<f32, 8, 8>, epilogue = Capped, min_blocks = 1;
    capped_tn_f32 = Tiled<f32, 16, Tn>, epilogue = Capped, min_blocks = 1;
}

reducers! {
    /// The second launch of a kernel whose blocks share K.
    REDUCERS:
    reduce_capped_f32 = f32, epilogue = Capped;
}

gemm_kernels! {
    /// One whose blocks share K.
    SPLIT:
    capped_split_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3>, epilogue = Capped, min_blocks = 1, reducer = reduce_capped_f32;
}

/// `sum * scales[col] + row`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Placed {
    scales: GlobalPtr<f32>,
}

impl Epilogue<bf16> for Placed {
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        // SAFETY: there is one scale for each column.
        sum * unsafe { self.scales.add(col.into()).load() } + row as f32
    }
}

gemm_kernels! {
    /// Those whose tiles fit, alone and in pairs, of which some swap A and B.
    PLACED:
    placed_bf16 = Warpgroup<bf16, 128, 256, 64, 4, SwapAB<Nn>, 1, bf16, 1, true>, epilogue = Placed, min_blocks = 1, factors = mapped;
    placed_pair_bf16 = Warpgroup<bf16, 128, 256, 64, 4, SwapAB<Nn>, 2, bf16, 1, true>, epilogue = Placed, min_blocks = 1, factors = mapped;
    placed_nt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nt, 1, bf16, 1, true>, epilogue = Placed, min_blocks = 1, factors = mapped;
    placed_pair_nt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nt, 2, bf16, 1, true>, epilogue = Placed, min_blocks = 1, factors = mapped;
}

gemm_kernels! {
    /// One that rounds its factors.
    ROUNDED:
    capped_tf32_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4>, epilogue = Capped, min_blocks = 1;
}

fn capped() -> CustomKernel<f32, Capped> {
    capped_of_row(0)
}

fn capped_of_row(row: usize) -> CustomKernel<f32, Capped> {
    // SAFETY: a row of the table above, whose epilogue is this one; the simulator needs no PTX.
    unsafe { CustomKernel::new(&KERNELS[row], &[]) }.unwrap()
}

#[test]
fn an_epilogue_of_the_users_own() {
    let device = Device::sim();
    let (a, b) = (integers(10, 6, 1), integers(6, 9, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let limits = device.vector(&[3.0f32; 9]).unwrap();
    let mut d = device.matrix(10, 9).unwrap();
    let epilogue = Capped { limits: GlobalPtr::from_address(limits.address()), stride: 0 };
    let want = expected(&a.view(), &b.view()).mapv(|x| x.min(3.0));

    let gemm = Gemm::new(&da, &db).epilogue_reads_vector(&limits);
    let [kernel, copy] = [capped(); 2];
    // SAFETY: there are as many limits as columns.
    let report = unsafe { gemm.clone().run_custom(&kernel, epilogue, &mut d) }.unwrap();
    assert_eq!(report.kernel.name, "capped_f32");
    assert!(report.counters.unwrap().fma >= 10 * 9 * 6);
    assert_eq!(d.to_array().unwrap(), want);

    let stream = device.stream().unwrap();
    d.write_raw(&[f32::NAN; 90]).unwrap();
    // SAFETY: as above.
    unsafe { gemm.enqueue_custom(&stream, &copy, epilogue, &mut d) }.unwrap();
    assert_eq!(d.to_array().unwrap(), want);
    assert_eq!(capped().report(&device).unwrap().max_threads, Some(64));
}

#[test]
fn a_report_says_what_the_users_own_computes_in() {
    let device = Device::sim();
    let (a, b) = (integers(10, 6, 1), integers(6, 9, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let limits = device.vector(&[3.0f32; 9]).unwrap();
    let epilogue = Capped { limits: GlobalPtr::from_address(limits.address()), stride: 0 };
    for (row, precision) in [(&KERNELS[0], Precision::Exact), (&ROUNDED[0], Precision::Tf32)] {
        // SAFETY: a row of the tables above, whose epilogue is this one; the simulator needs no PTX.
        let kernel = unsafe { CustomKernel::<f32, Capped>::new(row, &[]) }.unwrap();
        let mut d = device.matrix(10, 9).unwrap();
        let gemm = Gemm::new(&da, &db).epilogue_reads_vector(&limits);
        // SAFETY: there are as many limits as columns.
        let report = unsafe { gemm.run_custom(&kernel, epilogue, &mut d) }.unwrap();
        assert_eq!(report.computed, Computed::In(precision), "{}", row.name);
        // Small integers are not rounded.
        assert_eq!(d.to_array().unwrap(), expected(&a.view(), &b.view()).mapv(|x| x.min(3.0)));
    }
}

#[test]
fn the_users_own_is_told_places_of_d_where_factors_are_swapped() {
    let device = Device::sim();
    // Bulk stores take the second D alone.
    for (m, n, k) in [(150, 301, 20), (301, 152, 72)] {
        let (a, b) = (integers(m, k, 1), integers(k, n, 2));
        let [a, b] = [a, b].map(|factor| factor.mapv(|x: f32| bf16::from_f32(x % 3.0)));
        let scales: Vec<f32> = (0..n).map(|col| [0.5, -1.0, 0.25][col % 3]).collect();
        let mut want = expected(&a.mapv(f32::from).view(), &b.mapv(f32::from).view());
        for ((row, col), value) in want.indexed_iter_mut() {
            *value = *value * scales[col] + row as f32;
        }
        let want = want.mapv(bf16::from_f32);
        let scales = device.vector(&scales).unwrap();
        let epilogue = Placed { scales: GlobalPtr::from_address(scales.address()) };
        let [da, db] = [&a, &b].map(|factor| device.upload(&factor.view()).unwrap());
        let transposed = device.upload(&b.t()).unwrap();
        for kernel in PLACED {
            // SAFETY: a row of the table above, whose epilogue is this one; the simulator needs no PTX.
            let custom = unsafe { CustomKernel::<bf16, Placed>::new(kernel, &[]) }.unwrap();
            let mut d = device.matrix(m, n).unwrap();
            let gemm = match kernel.layouts {
                Layouts::NT => Gemm::new(&da, transposed.t()),
                _ => Gemm::new(&da, &db),
            };
            // SAFETY: there are as many scales as columns.
            let report = unsafe {
                gemm.epilogue_reads_vector(&scales).run_custom(&custom, epilogue, &mut d)
            };
            assert_eq!(report.unwrap().kernel.name, kernel.name);
            assert_eq!(d.to_array().unwrap(), want, "{} of {m} x {n} x {k}", kernel.name);
        }
    }
}

#[test]
fn transposed_factors_and_batches_of_the_users_own() {
    let device = Device::sim();
    let (a, b) = (integers(10, 6, 1), integers(6, 9, 2));
    let stored = a.t().broadcast((3, 6, 10)).unwrap().to_owned();
    let batch = device.upload_batch(&stored.view()).unwrap();
    let shared = device.upload(&b.view()).unwrap();
    let caps = Array3::from_shape_fn((3, 1, 9), |(i, _, _)| 2.0 * i as f32);
    let limits = device.upload_batch(&caps.view()).unwrap();
    let epilogue = Capped { limits: GlobalPtr::from_address(limits.address()), stride: 9 };
    let mut d = device.batch(3, 10, 9).unwrap();
    let gemm = Gemm::new(batch.t(), &shared).epilogue_reads_matrix(&limits);
    // SAFETY: there are as many limits as columns, for each product.
    let report = unsafe { gemm.clone().run_custom(&capped_of_row(1), epilogue, &mut d) }.unwrap();
    assert_eq!(report.kernel.name, "capped_tn_f32");
    for (i, d) in d.to_array().unwrap().outer_iter().enumerate() {
        assert_eq!(d, expected(&a.view(), &b.view()).mapv(|x| x.min(2.0 * i as f32)));
    }
    // SAFETY: refused, so never launched.
    let error = unsafe { gemm.run_custom(&capped(), epilogue, &mut d) }.unwrap_err();
    assert!(matches!(error, Error::KernelLayouts { kernel: "capped_f32", .. }), "{error}");
    assert!(error.to_string().contains("instantiate the kernel"), "{error}");
}

#[test]
fn parts_that_the_epilogue_would_ignore_are_refused() {
    let device = Device::sim();
    let a = device.upload(&integers(4, 4, 1).view()).unwrap();
    let vector = device.vector(&[0.0f32; 4]).unwrap();
    let mut d = device.matrix(4, 4).unwrap();
    let epilogue = Capped { limits: GlobalPtr::null(), stride: 0 };
    let gemm = || Gemm::new(&a, &a);
    let parts = [
        ("alpha", gemm().alpha(2.0)),
        ("C", gemm().accumulate(1.0)),
        ("a bias", gemm().bias_per_row(&vector)),
        ("an activation", gemm().activation(Activation::Relu)),
        ("a slope", gemm().leaky_slope(0.5)),
        ("a choice of kernel", gemm().kernel(KernelChoice::Named("naive".into()))),
    ];
    for (part, gemm) in parts {
        // SAFETY: refused before anything is launched.
        let error = unsafe { gemm.run_custom(&capped(), epilogue, &mut d) }.unwrap_err();
        assert!(matches!(error, Error::CustomEpilogue { part: found, .. } if found == part));
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = gemm().epilogue_reads_matrix(&a).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::CustomEpilogue { .. }), "{error}");
}

/// What is needed besides the operands can be asked for, and given; and only of who runs it.
#[test]
fn the_users_own_has_a_workspace_of_its_own_size() {
    let device = Device::sim();
    let (a, b) = (integers(16, 300, 1), integers(300, 40, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let limits = device.vector(&[3.0f32; 40]).unwrap();
    let mut d = device.matrix(16, 40).unwrap();
    let epilogue = Capped { limits: GlobalPtr::from_address(limits.address()), stride: 0 };
    // SAFETY: a row of the table above, whose epilogue is this one; the simulator needs no PTX.
    let kernel = unsafe { CustomKernel::<f32, Capped>::new(&SPLIT[0], &[]) }.unwrap();
    let gemm = Gemm::new(&da, &db).epilogue_reads_vector(&limits);
    let size = gemm.workspace_size_custom(&kernel, &mut d).unwrap();
    assert!(size.partial_bytes > 0, "{size:?}");
    let error = gemm.workspace_size(&mut d).unwrap_err();
    assert!(matches!(error, Error::CustomEpilogue { .. }), "{error}");

    let too_small =
        device.workspace(WorkspaceSize { partial_bytes: size.partial_bytes - 1, ..size });
    let too_small = too_small.unwrap();
    // SAFETY: there are as many limits as columns.
    let refused =
        unsafe { gemm.clone().workspace(&too_small).run_custom(&kernel, epilogue, &mut d) };
    assert!(matches!(refused.unwrap_err(), Error::WorkspaceTooSmall { .. }));
    let workspace = device.workspace(size).unwrap();
    // SAFETY: as above.
    unsafe { gemm.workspace(&workspace).run_custom(&kernel, epilogue, &mut d) }.unwrap();
    assert_eq!(d.to_array().unwrap(), expected(&a.view(), &b.view()).mapv(|x| x.min(3.0)));
}

/// `max(sum, 0)`, where the sum goes to a matrix of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Kept {
    sums: GlobalPtr<f32>,
    ld: u64,
}

impl Epilogue<f32> for Kept {
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        // SAFETY: there is an element for each of D.
        unsafe { self.sums.add(u64::from(row) * self.ld + u64::from(col)).store(sum) };
        sum.max(0.0)
    }
}

gemm_kernels! {
    /// Those that keep sums.
    KEEPING:
    kept_f32 = Tiled<f32, 16>, epilogue = Kept, min_blocks = 1;
}

#[test]
fn an_epilogue_may_write_besides_d() {
    let device = Device::sim();
    let (a, b) = (integers(20, 30, 1), integers(30, 25, 2));
    let (da, db) = (device.upload(&a.view()).unwrap(), device.upload(&b.view()).unwrap());
    let mut sums = device.matrix::<f32>(20, 25).unwrap();
    let mut d = device.matrix(20, 25).unwrap();
    let epilogue = Kept { sums: GlobalPtr::from_address(sums.address()), ld: 25 };
    // SAFETY: a row of the table above, whose epilogue is this one; the simulator needs no PTX.
    let kernel = unsafe { CustomKernel::<f32, Kept>::new(&KEEPING[0], &[]) }.unwrap();
    let gemm = Gemm::new(&da, &db).epilogue_writes_matrix(&mut sums);
    // SAFETY: there is a sum for each element of D, and nobody else uses them.
    unsafe { gemm.run_custom(&kernel, epilogue, &mut d) }.unwrap();
    let expected = expected(&a.view(), &b.view());
    assert_eq!(sums.to_array().unwrap(), expected);
    assert_eq!(d.to_array().unwrap(), expected.mapv(|x| x.max(0.0)));
    let error = Gemm::new(&da, &db).epilogue_writes_matrix(&mut sums).run(&mut d).unwrap_err();
    assert!(matches!(error, Error::CustomEpilogue { .. }), "{error}");
}

#[test]
fn a_kernel_for_other_types_is_refused() {
    // SAFETY: refused, so never launched.
    let error = unsafe { CustomKernel::<f32, Linear<f32>>::new(&KERNELS[0], &[]) }.unwrap_err();
    assert!(matches!(error, Error::KernelParameters { kernel: "capped_f32", .. }), "{error}");
    // SAFETY: as above.
    let error = unsafe { CustomKernel::<f64, Linear<f64>>::new(&KERNELS[0], &[]) }.unwrap_err();
    assert!(matches!(error, Error::KernelDtype { kernel: "capped_f32", .. }), "{error}");
}
