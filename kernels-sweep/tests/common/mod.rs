//! Running kernels on the simulator.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::params::{GemmParams, MatrixRef};
use std::ffi::c_void;

/// A product with operands of its own, rows without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Whether there are factors, a matrix C (which is not D) and a bias.
    pub with_epilogue: bool,
}

impl Product {
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Product { m, n, k, with_epilogue: false }
    }

    /// The bits of D, which held NaN before, and what the kernel did.
    pub fn run(&self, kernel: &KernelInfo) -> (Vec<u32>, Counters) {
        let Product { m, n, k, .. } = *self;
        let simulator = Simulator::new();
        let upload = |rows: u32, cols: u32, seed: u32| {
            let data: Vec<u8> =
                (0..rows * cols).flat_map(|i| value(i, seed).to_ne_bytes()).collect();
            let address = simulator.alloc(data.len().max(1) as u64).unwrap();
            simulator.write(address, &data).unwrap();
            MatrixRef { data: GlobalPtr::from_address(address), ld: cols.into() }
        };
        let d: MatrixRef<f32> = upload(m, n, 0);
        let size = (m * n) as usize * size_of::<f32>();
        simulator.write(d.data.address(), &vec![0xff; size]).unwrap();
        let mut epilogue = Linear::identity();
        if self.with_epilogue {
            epilogue = Linear {
                c: upload(m, n, 3),
                bias: upload(1, n, 4).data,
                alpha: 0.75,
                beta: -1.25,
                bias_axis: BiasAxis::Column,
                ..epilogue
            };
        }
        let (a, b) = (upload(m, k, 1), upload(k, n, 2));
        let params = GemmParams::single([a, b], d, (m, n, k), epilogue);
        let launch = Launch {
            grid: [kernel.blocks(m, n) as u32, 1, 1],
            block: [kernel.threads(), 1, 1],
            dynamic_shared: kernel.shared_bytes,
        };
        // SAFETY: the one argument points to a value of the kernel's parameter type.
        let launched = unsafe {
            simulator.launch(&kernel.entry, launch, &[(&raw const params).cast::<c_void>()])
        };
        let counters = launched.unwrap_or_else(|error| panic!("{}: {error}", kernel.name));

        let mut bytes = vec![0; size];
        simulator.read(d.data.address(), &mut bytes).unwrap();
        let bits = bytes.chunks_exact(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap()));
        (bits.collect(), counters)
    }
}

/// A value in (-1, 1) with all bits of its fraction in use, so that every rounding shows: a hash of the index (the
/// finalizer of MurmurHash3).
fn value(index: u32, seed: u32) -> f32 {
    let mut x = index ^ seed.wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    (x ^ (x >> 16)) as i32 as f32 / 2f32.powi(31)
}
