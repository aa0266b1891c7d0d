//! What this library's kernels take of a multiprocessor, as recorded when they were compiled.

use serde::Serialize;
use std::sync::LazyLock;

/// The tools in a comment, a heading, and a line a kernel and architecture. `.ci/assemble-ptx` writes it and checks
/// that it is current: `compiled.digests` says of which modules.
const RECORD: &str = include_str!("compiled.csv");

/// The compiler that made the embedded PTX, such as `rustc 1.96.0`.
const COMPILER: &str = env!("REGEMM_PTX_COMPILER");

/// What the assembler made of a kernel for an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Compiled {
    /// The architecture that it was assembled for, such as `sm_86`.
    pub arch: &'static str,
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory declared in the kernel, a block.
    pub static_shared_bytes: u32,
    /// Bytes of local memory of a thread: what did not fit into registers.
    pub local_bytes: u32,
    /// Whether the embedded PTX was made by the compiler that this was recorded with. Another makes other PTX of the
    /// same kernel, and so a few registers more or fewer; `.ci/assemble-ptx` checks that none go to local memory.
    pub exact: bool,
}

static ROWS: LazyLock<Vec<(&'static str, Compiled)>> =
    LazyLock::new(|| RECORD.lines().skip(2).filter_map(row).collect());

/// What the kernel with this entry name takes on GPUs of a compute capability, without a GPU: as ptxas 13.0 assembles
/// the embedded PTX that a GPU of that capability would be given. None for kernels that are not this library's and
/// capabilities that are not recorded. A driver of another CUDA release may give other registers.
pub fn compiled(kernel: &str, capability: (u32, u32)) -> Option<Compiled> {
    let (major, minor) = capability;
    let arch = format!("sm_{major}{minor}");
    // `sm_90a` is what PTX that uses the features of 9.0 alone is assembled for.
    let fits = |found: &str| found.strip_suffix('a').unwrap_or(found) == arch;
    ROWS.iter().find(|(name, row)| *name == kernel && fits(row.arch)).map(|(_, row)| *row)
}

/// The tools that the record was made with: `rustc 1.96.0, ptxas 13.0.88`.
pub fn recorded_with() -> &'static str {
    RECORD.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default()
}

fn row(line: &'static str) -> Option<(&'static str, Compiled)> {
    let mut fields = line.split(',');
    let kernel = fields.next()?;
    let arch = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    let exact = recorded_with().split(", ").next() == Some(COMPILER);
    let compiled = Compiled {
        arch,
        registers: number()?,
        static_shared_bytes: number()?,
        local_bytes: number()?,
        exact,
    };
    fields.next().is_none().then_some((kernel, compiled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::of_all_precisions;
    use crate::occupancy::{CannotLaunch, Demand, Limits, occupancy};
    use regemm_kernels::table::{CYCLE_COUNTER, REDUCERS, REPACKER, ROUNDER, SPLITTER, TRANSPOSER};

    /// Names of the columns.
    const HEADING: &str = "kernel,arch,registers,static_shared_bytes,local_bytes";

    const RENEW: &str = "renew it with: .ci/assemble-ptx --registers host/src/occupancy/compiled";

    #[test]
    fn every_line_is_read() {
        assert_eq!(RECORD.lines().nth(1), Some(HEADING));
        assert_eq!(ROWS.len() + 2, RECORD.lines().count());
        let (compiler, assembler) = recorded_with().split_once(", ").unwrap();
        assert!(compiler.starts_with("rustc 1.") && assembler.starts_with("ptxas "));
        assert!(COMPILER.starts_with("rustc 1."), "{COMPILER}");
    }

    #[test]
    fn every_kernel_is_recorded_for_every_capability_and_nothing_else() {
        for kernel in of_all_precisions() {
            for capability in Limits::CAPABILITIES {
                let found = compiled(kernel.entry.name, capability);
                assert!(found.is_some(), "{} for {capability:?}: {RENEW}", kernel.name);
            }
        }
        let own = of_all_precisions().filter(|kernel| kernel.name == kernel.entry.name).count();
        let alone = [REPACKER, TRANSPOSER, SPLITTER, ROUNDER, CYCLE_COUNTER];
        let launched_around = REDUCERS.len() + alone.len();
        let entries = own + launched_around;
        assert_eq!(ROWS.len(), entries * Limits::CAPABILITIES.len(), "{RENEW}");
        assert_eq!(compiled("naive_f32", (9, 9)), None);
        assert_eq!(compiled("naive", (9, 0)), None);
    }

    /// The launch bounds of the table promise the assembler so many blocks, so it must have found registers for them.
    #[test]
    fn every_kernel_has_the_blocks_that_the_table_asks_for() {
        for kernel in of_all_precisions() {
            for capability in Limits::CAPABILITIES {
                let limits = Limits::of(capability).unwrap();
                let compiled = compiled(kernel.entry.name, capability).unwrap();
                let shared_bytes = compiled.static_shared_bytes + kernel.shared_bytes;
                let demand = Demand {
                    threads: kernel.threads(),
                    registers: compiled.registers,
                    shared_bytes,
                };
                let found = occupancy(&limits, &demand);
                if shared_bytes > limits.shared_bytes_per_block {
                    let most = limits.shared_bytes_per_block;
                    assert_eq!(
                        found,
                        Err(CannotLaunch::SharedMemory { bytes: shared_bytes, most })
                    );
                    continue;
                }
                let found = found.unwrap();
                let asked_for = kernel.entry.min_blocks.unwrap();
                let possible = asked_for.min(found.room.threads);
                let by_registers = found.room.registers.unwrap();
                let name = kernel.name;
                assert!(by_registers >= possible, "{name} on {capability:?}: {found:?}");
            }
        }
    }
}
