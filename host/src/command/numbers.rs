//! Numbers of options, with what is wrong with them in plain words.

use std::num::NonZeroUsize;

/// The most rows, columns or depth that a kernel takes.
pub const LARGEST: usize = i32::MAX as usize;

/// Reads rows, columns or a depth.
pub fn extent(text: &str) -> Result<NonZeroUsize, String> {
    let read = text.parse().ok().filter(|extent: &NonZeroUsize| extent.get() <= LARGEST);
    read.ok_or_else(|| format!("must be a whole number from 1 to {LARGEST}"))
}

/// Reads how many there are to be of something.
pub fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "must be a whole number from 1".to_owned())
}

/// Reads a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

/// Reads the number of a problem. Each draws from two streams of random numbers, of which there are as many as a seed
/// is large.
pub fn case(text: &str) -> Result<u64, String> {
    const LAST: u64 = u64::MAX / 2 - 1;
    let case = text.parse().ok().filter(|&case| case <= LAST);
    case.ok_or_else(|| format!("must be a whole number from 0 to {LAST}"))
}

/// Reads a factor or a slope. What is infinite or zero must be written so, and not come of what f64 cannot hold.
pub fn factor(text: &str) -> Result<f64, String> {
    let wrong = |_| "must be a number, such as 0.5, -2 or 1e-3".to_owned();
    let value: f64 = text.parse().map_err(wrong)?;
    let is_digit = |c: char| c.is_ascii_digit();
    if value.is_infinite() && text.contains(is_digit) {
        return Err("is too large for any type: give a smaller number, or inf".to_owned());
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    if value == 0.0 && mantissa.contains(|c| is_digit(c) && c != '0') {
        return Err("is too small for any type: give a larger number, or 0".to_owned());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_limits() {
        assert_eq!(extent("2147483647").map(NonZeroUsize::get), Ok(LARGEST));
        assert_eq!(count("1").map(NonZeroUsize::get), Ok(1));
        assert_eq!((seed("0"), factor("-1.5e3")), (Ok(0), Ok(-1500.0)));
        for wrong in ["", "0", "-1", "1.5", "2147483648", "x"] {
            assert!(
                extent(wrong).is_err_and(|why| why.contains("from 1 to 2147483647")),
                "{wrong}"
            );
        }
        for wrong in ["", "0", "-1", "x"] {
            assert!(count(wrong).is_err_and(|why| why.contains("from 1")), "{wrong}");
        }
        assert!(seed("abc").is_err_and(|why| why.contains("from 0")));
        assert!(factor("x").is_err_and(|why| why.contains("a number, such as")));
    }

    #[test]
    fn infinities_and_zeros_are_meant() {
        for large in ["1e400", "-1e400", "2E+309"] {
            assert!(factor(large).is_err_and(|why| why.contains("too large")), "{large}");
        }
        for small in ["1e-400", "-0.5E-400"] {
            assert!(factor(small).is_err_and(|why| why.contains("too small")), "{small}");
        }
        for infinite in ["inf", "-inf", "Infinity"] {
            assert!(factor(infinite).is_ok_and(f64::is_infinite), "{infinite}");
        }
        assert!(factor("nan").is_ok_and(f64::is_nan));
        assert!(["0", "-0.0", "0e5", "000e-400"].iter().all(|zero| factor(zero) == Ok(0.0)));
    }
}
