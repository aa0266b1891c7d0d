//! What is known at some places, told of another.
//!
//! What measured times are of a trend is taken for random, that of two places for the more alike the nearer they are: a
//! covariance of `exp(-distance / LENGTH)`, and noise of each by itself. What is expected elsewhere is then the sum of
//! what is known, with the weights that leave the least square of errors: simple kriging (G. Matheron, "Principles of
//! geostatistics", Economic Geology 58, 1963), which is the mean of a Gaussian process (C. E. Rasmussen and C. K. I.
//! Williams, "Gaussian Processes for Machine Learning", 2006, section 2.2). Unlike weights by distance alone these
//! count several that lie close together as little more than one, go on where measured shapes lie on one side, and come
//! back to the trend where all are far.

use super::equations::solve;
use super::neighbours::{MOST, Neighbours};
use std::cell::Cell;

/// Octaves after which a deviation from the trend is alike by 1 / e. Shipped shapes that are left out are predicted as
/// well with 4 or 16.
const LENGTH: f64 = 8.0;

/// What deviations from a trend are made of, beside those that places share the more the nearer they are: variances
/// relative to that of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variances {
    /// Of what each place deviates by alone, and nobody else.
    pub noise: f64,
    /// Of what all deviate by alike. With much of it what is expected far away is the mean of what is known (ordinary
    /// kriging), with none it is the trend (simple kriging).
    pub level: f64,
}

/// How places and what is known of them are related, ready for any set of those that are known.
pub(super) struct Kriging {
    count: usize,
    /// Of what is asked for.
    variance: f64,
    /// Of what is known with one another.
    covariances: [[f64; MOST]; MOST],
    /// With what is asked for.
    asked: [f64; MOST],
    /// The last set of what was known, a bit each, with its weights: that of most kernels is the same.
    last: Cell<(u32, [f64; MOST])>,
}

impl Kriging {
    /// Of the places near a shape. These can be farther away than they lie, in squared octaves: of an index and another
    /// one, or the shape itself.
    pub fn new(
        neighbours: &Neighbours,
        variances: Variances,
        farther: impl Fn(usize, Option<usize>) -> f64,
    ) -> Kriging {
        let Variances { noise, level } = variances;
        let covariance = |square: f64| level + (-square.sqrt() / LENGTH).exp();
        let places = neighbours.places();
        let (mut covariances, mut asked) = ([[0.0; MOST]; MOST], [0.0; MOST]);
        // Of the shape itself there is nothing to tell.
        let noise = if neighbours.is_itself { 0.0 } else { noise };
        for (i, (index, square)) in places.clone().enumerate() {
            let farther_away = if neighbours.is_itself { 0.0 } else { farther(index, None) };
            asked[i] = covariance(square + farther_away);
            for (j, (other, _)) in places.clone().take(i).enumerate() {
                let square = neighbours.square_between(i, j) + farther(index, Some(other));
                covariances[i][j] = covariance(square);
            }
            covariances[i][i] = covariance(0.0) + noise;
        }
        Kriging {
            count: places.count(),
            variance: covariance(0.0),
            covariances,
            asked,
            last: Cell::new((0, [0.0; MOST])),
        }
    }

    /// What is expected of values at the places in their order, NaN where it is not known; 0 if nothing is.
    pub fn expected(&self, values: &[f64]) -> f64 {
        let is_known = |(i, value): (usize, &f64)| u32::from(!value.is_nan()) << i;
        let known: u32 = values.iter().enumerate().map(is_known).sum();
        let (mut set, mut weights) = self.last.get();
        if set != known {
            (set, weights) = (known, self.weights(known));
            self.last.set((set, weights));
        }
        let known = weights.into_iter().zip(values).filter(|(_, value)| !value.is_nan());
        known.map(|(weight, value)| weight * value).sum()
    }

    /// The expected square of the error of what all places say, relative to the variance of what shapes deviate by for
    /// themselves: 0 on a measured shape, more than 1 where all are far away.
    pub fn uncertainty(&self) -> f64 {
        let weights = self.weights((1 << self.count) - 1);
        let told = weights.into_iter().zip(self.asked).map(|(weight, asked)| weight * asked);
        self.variance - told.sum::<f64>()
    }

    /// What each of a set counts; 0 of the others.
    fn weights(&self, known: u32) -> [f64; MOST] {
        let (mut covariances, mut asked, mut of) = ([[0.0; MOST]; MOST], [0.0; MOST], [0; MOST]);
        let mut count = 0;
        for i in (0..self.count).filter(|i| known & (1 << i) != 0) {
            of[count] = i;
            for j in 0..=count {
                covariances[count][j] = self.covariances[i][of[j]];
            }
            asked[count] = self.asked[i];
            count += 1;
        }
        let mut weights = [0.0; MOST];
        // The noise makes every matrix of these positive definite, but for numbers that are none.
        if let Some(found) = solve(covariances, asked, count) {
            of.into_iter().zip(found).take(count).for_each(|(i, weight)| weights[i] = weight);
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::super::class::Shape;
    use super::super::neighbours::Site;
    use super::super::table::Source;
    use super::*;
    use regemm_kernels::element::Dtype;

    const MUCH: Variances = Variances { noise: 0.05, level: 10.0 };

    fn near(measured: &[[u32; 3]], [m, n, k]: [u32; 3]) -> Neighbours {
        let shape = |[m, n, k]: [u32; 3]| Shape::packed(Dtype::F32, m, n, k);
        let sites =
            Vec::from_iter(measured.iter().map(|&it| Site::new(shape(it), Source::Shipped, false)));
        Neighbours::among(sites.iter().enumerate(), shape([m, n, k]), 8.0).unwrap()
    }

    /// Values by the index of the place, in the order of distance.
    fn expected(neighbours: &Neighbours, values: &[f64], noise: f64) -> f64 {
        let values = Vec::from_iter(neighbours.places().map(|(index, _)| values[index]));
        Kriging::new(neighbours, Variances { noise, level: 10.0 }, |_, _| 0.0).expected(&values)
    }

    #[test]
    fn the_shape_itself_says_all() {
        let near = near(&[[512; 3], [1024; 3]], [1024; 3]);
        assert_eq!(expected(&near, &[5.0, 7.0], 0.1), 7.0);
        assert_eq!(Kriging::new(&near, MUCH, |_, _| 0.0).uncertainty(), 0.0);
    }

    #[test]
    fn between_two_it_is_between_them_and_beyond_it_goes_back_to_their_mean_or_to_the_trend() {
        let of = |n| near(&[[512; 3], [1024; 3]], [n; 3]);
        let at = |n| expected(&of(n), &[1.0, 2.0], 1e-3);
        let [low, middle, high] = [512 + 64, 724, 1024 - 64].map(at);
        assert!(1.0 < low && low < middle && middle < high && high < 2.0, "{low} {middle} {high}");
        assert!((middle - 1.5).abs() < 0.03, "{middle}");
        let beyond = at(2048);
        assert!(beyond > 1.5 && beyond < 2.0, "{beyond}");
        let places = of(2048);
        let none = Variances { level: 0.0, ..MUCH };
        let simple = Kriging::new(&places, none, |_, _| 0.0).expected(&[2.0, 1.0]);
        assert!(simple < beyond - 0.1, "{simple}: on the way to the trend");
        let uncertainty = |n| Kriging::new(&of(n), MUCH, |_, _| 0.0).uncertainty();
        let [close, between, far] = [1000, 724, 2048].map(uncertainty);
        assert!(0.0 < close && close < between && between < far, "{close} {between} {far}");
    }

    /// Three that lie close together say what one says, with less noise.
    #[test]
    fn a_cluster_counts_as_little_more_than_one() {
        let near = near(&[[512; 3], [2047; 3], [2048; 3], [2049; 3]], [1024; 3]);
        let found = expected(&near, &[1.0, 2.0, 2.0, 2.0], 0.05);
        assert!((found - 1.5).abs() < 0.1, "{found}");
    }

    #[test]
    fn what_is_not_known_is_as_if_it_were_not_there() {
        let both = near(&[[512; 3], [1024; 3], [2048; 3]], [900; 3]);
        let two = near(&[[512; 3], [2048; 3]], [900; 3]);
        let [unknown, known] =
            [expected(&both, &[1.0, f64::NAN, 3.0], 0.05), expected(&two, &[1.0, 3.0], 0.05)];
        assert!((unknown - known).abs() < 1e-12, "{unknown} {known}");
        assert_eq!(expected(&both, &[f64::NAN; 3], 0.05), 0.0);
    }

    #[test]
    fn who_is_farther_away_than_it_lies_counts_less() {
        let near = near(&[[512; 3], [2048; 3]], [1024; 3]);
        let values = Vec::from_iter(near.places().map(|(index, _)| [1.0, 2.0][index]));
        let farther = |a: usize, b: Option<usize>| f64::from(u8::from(a.max(b.unwrap_or(0)) == 1));
        let [plain, far] = [
            Kriging::new(&near, MUCH, |_, _| 0.0).expected(&values),
            Kriging::new(&near, MUCH, farther).expected(&values),
        ];
        assert!(far < plain - 0.03, "{far} {plain}");
    }
}
