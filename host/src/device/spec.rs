//! The text form of a device.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// Which device to open: `auto`, `cuda:0` and `sim` in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The first CUDA device, else the simulator.
    #[default]
    Auto,
    /// The CUDA device with this index.
    Cuda(usize),
    /// The simulator.
    Sim,
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Auto => f.pad("auto"),
            DeviceSpec::Cuda(ordinal) => f.pad(&format!("cuda:{ordinal}")),
            DeviceSpec::Sim => f.pad("sim"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = Error;

    /// Reads `auto`, `sim`, `cuda:N`, or `cuda` for `cuda:0`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::InvalidDeviceSpec { text: text.to_owned() };
        match text {
            "auto" => Ok(DeviceSpec::Auto),
            "sim" => Ok(DeviceSpec::Sim),
            "cuda" => Ok(DeviceSpec::Cuda(0)),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or_else(invalid)?;
                if !ordinal.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(invalid());
                }
                ordinal.parse().map(DeviceSpec::Cuda).map_err(|_| invalid())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for spec in [DeviceSpec::Auto, DeviceSpec::Sim, DeviceSpec::Cuda(0), DeviceSpec::Cuda(17)] {
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        assert_eq!("cuda".parse::<DeviceSpec>().unwrap(), DeviceSpec::Cuda(0));
        assert_eq!(DeviceSpec::default(), DeviceSpec::Auto);
    }

    #[test]
    fn other_text_is_refused_with_what_would_be_right() {
        for text in [
            "",
            "gpu",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:x",
            "CUDA:0",
            "cuda:99999999999999999999",
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert!(error.to_string().contains("`cuda:N`"), "{error}");
        }
    }
}
