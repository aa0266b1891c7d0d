//! Parts of messages that depend on what was found.

use super::{Operand, Resource};
use crate::device::DeviceSpec;
use crate::kernels::Types;
use crate::near::near;
use regemm_kernels::kernel::Rung;

pub fn number_of_devices(count: usize) -> String {
    match count {
        0 => "the driver finds no device".to_owned(),
        1 => "the only device is cuda:0".to_owned(),
        _ => format!("the devices are cuda:0 to cuda:{}", count - 1),
    }
}

pub fn batch_of(count: Option<usize>) -> String {
    match count {
        None => "is one matrix".to_owned(),
        Some(count) => format!("one of {count}"),
    }
}

/// The kernels that are most like the one that does not fit; all of them would be dozens.
pub fn layouts_remedy(kernel: &str, fitting: &[&'static str]) -> String {
    let near = near(kernel, fitting.iter().copied());
    match (fitting, &near[..]) {
        ([], _) => "instantiate the kernel for these layouts".to_owned(),
        (_, []) => format!("choose one for these, such as {}", fitting[0]),
        (_, near) => format!("choose one for these, such as {}", near.join(", ")),
    }
}

pub fn any_of(types: &[Types]) -> String {
    types.iter().map(Types::to_string).collect::<Vec<_>>().join(", ")
}

pub fn names_of(rungs: &[Rung]) -> String {
    rungs.iter().map(|rung| rung.name()).collect::<Vec<_>>().join(", ")
}

/// What is on the device that an operand should be on, too.
pub fn what_is_expected(operand: Operand) -> &'static str {
    match operand {
        // There is no product yet.
        Operand::Factor => "is to be split",
        Operand::Source | Operand::Copy => "the copy is to be made",
        Operand::Clock => "the stream is",
        _ => "A is",
    }
}

/// What to do where a kernel takes too much of this.
pub fn instead_of(resource: Resource) -> &'static str {
    match resource {
        Resource::Threads | Resource::SharedMemory => "choose a kernel with smaller tiles",
        Resource::Blocks => "choose a kernel with larger tiles, or take the matrices in parts",
    }
}

pub fn same_kind(found: DeviceSpec, expected: DeviceSpec) -> &'static str {
    if found == expected { " (each simulator has its own memory)" } else { "" }
}

pub fn suggestion(near: &[&str]) -> String {
    match near {
        [] => "`regemm info` lists all".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    }
}

pub fn gpu_suggestion(near: &[&str], known: &[&str]) -> String {
    match near {
        [] => format!("known are {}", known.join(", ")),
        near => suggestion(near),
    }
}

pub fn no_room(device: DeviceSpec, requested: u64, free: u64) -> String {
    if device == DeviceSpec::Sim && requested <= free {
        return format!("the host could not give the simulator {requested} bytes");
    }
    format!("{device} has no room for {requested} bytes: {free} bytes are free")
}
