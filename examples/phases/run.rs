//! A launch that is observed, and whose result is checked.

use crate::Result;
use crate::element::{Element, Name};
use crate::size::Size;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, MemoryAccess, Simulator, ThreadEvents};
use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::params::{GemmParams, MatrixRef};

/// Bytes of an element.
pub const BYTES: u64 = size_of::<f32>() as u64;

/// What a kernel did.
pub struct Run {
    pub kernel: &'static KernelInfo,
    pub size: Size,
    pub counters: Counters,
    /// All threads, block by block.
    pub threads: Vec<ThreadEvents>,
    matrices: [Matrix; 3],
}

/// Where a matrix lies.
struct Matrix {
    name: Name,
    address: u64,
    rows: u32,
    cols: u32,
}

impl Matrix {
    fn on(simulator: &Simulator, name: Name, (rows, cols): (u32, u32)) -> Result<Self> {
        let address = simulator.alloc(u64::from(rows * cols) * BYTES)?;
        Ok(Matrix { name, address, rows, cols })
    }

    /// The same for kernels.
    fn to_kernel(&self) -> MatrixRef<f32> {
        MatrixRef { data: GlobalPtr::from_address(self.address), ld: self.cols.into() }
    }

    fn element_at(&self, address: u64) -> Option<Element> {
        let index = address.checked_sub(self.address)? / BYTES;
        let (row, col) = (index / u64::from(self.cols), index % u64::from(self.cols));
        (row < self.rows.into()).then_some(Element { matrix: self.name, row, col })
    }
}

impl Run {
    /// Multiplies matrices of small integers, whose product is exact.
    pub fn new(kernel: &'static KernelInfo, size: Size) -> Result<Self> {
        let Size { m, n, k } = size;
        let simulator = Simulator::new();
        let a = Matrix::on(&simulator, Name::A, (m, k))?;
        let b = Matrix::on(&simulator, Name::B, (k, n))?;
        let d = Matrix::on(&simulator, Name::D, (m, n))?;
        let upload = |matrix: &Matrix, modulus: u32| -> Result<Vec<f32>> {
            let values: Vec<f32> =
                (0..matrix.rows * matrix.cols).map(|i| (i % modulus) as f32 - 2.0).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            simulator.write(matrix.address, &bytes)?;
            Ok(values)
        };
        let (values_a, values_b) = (upload(&a, 7)?, upload(&b, 5)?);

        let factors = [a.to_kernel(), b.to_kernel()];
        let params =
            GemmParams::single(factors, d.to_kernel(), (m, n, k), Linear::<f32>::identity());
        let launch = Launch {
            grid: [kernel.blocks(m, n) as u32, 1, 1],
            block: [kernel.threads(), 1, 1],
            dynamic_shared: kernel.shared_bytes,
        };
        // SAFETY: the one argument points to a value of the kernel's parameter type.
        let (counters, threads) =
            unsafe { simulator.observe(&kernel.entry, launch, &[(&raw const params).cast()])? };

        let mut bytes = vec![0; (u64::from(m * n) * BYTES) as usize];
        simulator.read(d.address, &mut bytes)?;
        let expected = (0..m * n).flat_map(|i| {
            let (row, col) = (i / n, i % n);
            let product =
                |p: u32| values_a[(row * k + p) as usize] * values_b[(p * n + col) as usize];
            // From +0, as the kernels' sums.
            (0..k).map(product).fold(0.0, |sum: f32, product| sum + product).to_ne_bytes()
        });
        if !bytes.iter().copied().eq(expected) {
            return Err(format!("{}: the product is wrong", kernel.name).into());
        }
        Ok(Run { kernel, size, counters, threads, matrices: [a, b, d] })
    }

    /// Blocks of the launch.
    pub fn blocks(&self) -> u32 {
        self.kernel.blocks(self.size.m, self.size.n) as u32
    }

    /// The threads of a block.
    pub fn block(&self, block: u32) -> &[ThreadEvents] {
        let threads = self.kernel.threads() as usize;
        &self.threads[block as usize * threads..][..threads]
    }

    /// Fails if there is no such block.
    pub fn has_block(&self, block: u32) -> Result<()> {
        let blocks = self.blocks();
        if block < blocks {
            return Ok(());
        }
        Err(format!("there is no block {block}: they are 0 to {}", blocks - 1).into())
    }

    /// The element that an access is to.
    pub fn element(&self, access: &MemoryAccess) -> Result<Element> {
        if u64::from(access.bytes) != BYTES {
            return Err(format!("{}: {access} is to no element", self.kernel.name).into());
        }
        self.element_at(access.address)
    }

    /// The element at an address of global memory.
    pub fn element_at(&self, address: u64) -> Result<Element> {
        let mut found = self.matrices.iter().filter_map(|matrix| matrix.element_at(address));
        found
            .next()
            .ok_or_else(|| format!("{}: no element is at {address:#x}", self.kernel.name).into())
    }
}
