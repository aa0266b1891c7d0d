//! What a device lets kernels attain, from how much they compute with each byte (S. Williams, A. Waterman, D.
//! Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures", Communications of the ACM
//! 52(4), 2009).

use serde::{Deserialize, Serialize};

/// A device's roofs and where kernels lie below them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// What is drawn, in words.
    pub title: String,
    /// The device's peak in FLOP/s, outside of tensor cores.
    pub peak_flops: f64,
    /// That of its tensor cores, if known.
    #[serde(default)]
    pub tensor_peak_flops: Option<f64>,
    /// Bandwidth of global memory in bytes a second.
    pub bandwidth: f64,
    /// Bandwidth of the shared memory of all multiprocessors together in bytes a second, if known.
    #[serde(default)]
    pub shared_bandwidth: Option<f64>,
    /// The kernels.
    pub points: Vec<Point>,
}

impl Roofline {
    /// What global memory and the units that a kernel multiplies with allow at its intensity, in FLOP/s.
    pub fn roof(&self, point: &Point) -> f64 {
        let peak =
            if point.on_tensor_cores { self.tensor_peak_flops } else { Some(self.peak_flops) };
        peak.unwrap_or(f64::INFINITY).min(point.intensity * self.bandwidth)
    }

    /// The peaks that kernels here have, the highest last: what is on tensor cores has another.
    pub fn peaks(&self) -> Vec<f64> {
        let has = |on_tensor_cores| {
            self.points.iter().any(|point| point.on_tensor_cores == on_tensor_cores)
        };
        let plain = (has(false) || !has(true)).then_some(self.peak_flops);
        plain.into_iter().chain(self.tensor_peak_flops.filter(|_| has(true))).collect()
    }

    /// Whether a kernel may attain less than the roof at its intensity: something within the multiprocessors, which is
    /// shared memory, holds it back before.
    pub fn is_held_back_on_chip(&self, point: &Point) -> bool {
        /// Farther than numbers in a file may be off.
        const BELOW: f64 = 0.999;
        point.attainable < BELOW * self.roof(point)
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
    /// Whether it multiplies on tensor cores.
    #[serde(default)]
    pub on_tensor_cores: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_below_the_roof_is_held_back_on_chip() {
        let roofline = Roofline {
            title: "a GPU".into(),
            peak_flops: 60e12,
            tensor_peak_flops: Some(900e12),
            bandwidth: 5e12,
            shared_bandwidth: None,
            points: Vec::new(),
        };
        let point = |intensity, attainable, on_tensor_cores| Point {
            name: "a".into(),
            intensity,
            attained: None,
            attainable,
            on_tensor_cores,
        };
        let roof = |intensity, on| roofline.roof(&point(intensity, 0.0, on));
        assert_eq!([roof(2.0, false), roof(100.0, false)], [10e12, 60e12]);
        assert_eq!([roof(100.0, true), roof(1000.0, true)], [500e12, 900e12]);
        let held_back = |intensity, attainable, on| {
            roofline.is_held_back_on_chip(&point(intensity, attainable, on))
        };
        assert!(!held_back(2.0, 10e12, false) && !held_back(100.0, 60e12, false));
        assert!(held_back(2.0, 8e12, false) && held_back(100.0, 30e12, false));
        assert!(!held_back(100.0, 500e12, true) && held_back(100.0, 60e12, true));

        let peaks = |kinds: &[bool], tensor_peak_flops| {
            let points = kinds.iter().map(|&on| point(1.0, 1.0, on)).collect();
            Roofline { points, tensor_peak_flops, ..roofline.clone() }.peaks()
        };
        assert_eq!(peaks(&[], Some(9.0)), [60e12]);
        assert_eq!(peaks(&[false, true], Some(900e12)), [60e12, 900e12]);
        assert_eq!(peaks(&[true], Some(900e12)), [900e12]);
        assert_eq!(peaks(&[true], None), [0.0; 0]);
    }
}
