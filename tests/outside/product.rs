//! The program of `tests/outside.rs`: multiplies two matrices with regemm as a dependency.

use regemm::ndarray::array;
use regemm::{Device, Gemm};

fn main() -> regemm::Result<()> {
    let device = Device::auto()?;
    let a = device.upload(&array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]].view())?;
    let b = device.upload(&array![[7.0f32, 8.0], [9.0, 10.0], [11.0, 12.0]].view())?;
    let mut d = device.matrix(2, 2)?;
    Gemm::new(&a, &b).run(&mut d)?;
    println!("{:?}", d.to_vec()?);
    Ok(())
}
