//! What a device lets kernels attain, from how much they compute with each byte (S. Williams, A. Waterman, D. Patterson,
//! "Roofline: An Insightful Visual Performance Model for Multicore Architectures", Communications of the ACM 52(4), 2009).

use serde::{Deserialize, Serialize};

/// A device's roofs and where kernels lie below them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// What is drawn, in words.
    pub title: String,
    /// The device's peak in FLOP/s.
    pub peak_flops: f64,
    /// Bandwidth of global memory in bytes a second.
    pub bandwidth: f64,
    /// Bandwidth of the shared memory of all multiprocessors together in bytes a second, if known.
    #[serde(default)]
    pub shared_bandwidth: Option<f64>,
    /// The kernels.
    pub points: Vec<Point>,
}

impl Roofline {
    /// What global memory and the multiply-add units allow at an intensity, in FLOP/s.
    pub fn roof(&self, intensity: f64) -> f64 {
        self.peak_flops.min(intensity * self.bandwidth)
    }

    /// Whether a kernel may attain less than the roof at its intensity: something within the multiprocessors, which is
    /// shared memory, holds it back before.
    pub fn is_held_back_on_chip(&self, point: &Point) -> bool {
        /// Farther than numbers in a file may be off.
        const BELOW: f64 = 0.999;
        point.attainable < BELOW * self.roof(point.intensity)
    }
}

/// A kernel on the roofline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The kernel's name.
    pub name: String,
    /// Operations for each byte from global memory, in FLOP/byte.
    pub intensity: f64,
    /// Measured speed in FLOP/s.
    pub attained: Option<f64>,
    /// The speed that the roofs allow, in FLOP/s.
    pub attainable: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_below_the_roof_is_held_back_on_chip() {
        let roofline = Roofline {
            title: "a GPU".into(),
            peak_flops: 60e12,
            bandwidth: 5e12,
            shared_bandwidth: None,
            points: Vec::new(),
        };
        let held_back = |intensity, attainable| {
            let point = Point { name: "a".into(), intensity, attained: None, attainable };
            roofline.is_held_back_on_chip(&point)
        };
        assert_eq!((roofline.roof(2.0), roofline.roof(100.0)), (10e12, 60e12));
        assert!(!held_back(2.0, 10e12) && !held_back(100.0, 60e12));
        assert!(held_back(2.0, 8e12) && held_back(100.0, 30e12));
    }
}
