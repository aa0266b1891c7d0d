//! The products that kernels compute.

use std::fmt;
use std::str::FromStr;

/// The most rows, columns or depth. More is more than anybody reads.
const LARGEST: u32 = 64;

/// Rows and columns of D, and the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extent = |number: &str| number.parse().ok().filter(|n| (1..=LARGEST).contains(n));
        let numbers: Option<Vec<u32>> = text.split('x').map(extent).collect();
        match numbers.as_deref() {
            Some(&[n]) => Ok(Size { m: n, n, k: n }),
            Some(&[m, n, k]) => Ok(Size { m, n, k }),
            _ => Err(format!("a size is N or MxNxK with numbers from 1 to {LARGEST}")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { m, n, k } = self;
        write!(f, "D = {m} x {n} from A = {m} x {k} and B = {k} x {n}")
    }
}
