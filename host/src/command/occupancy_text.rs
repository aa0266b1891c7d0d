//! The answers of `regemm occupancy` in words.

use super::occupancy::Entry;
use super::output::{bytes, count, or_dash, percent, table};
use regemm::occupancy::{CannotLaunch, Limiter, Limits, Occupancy};

/// Whose multiprocessor it is and what it has.
pub fn limits_text(name: &str, capability: Option<(u32, u32)>, limits: &Limits) -> String {
    let capability = capability
        .map_or_else(String::new, |(major, minor)| format!(", compute capability {major}.{minor}"));
    format!(
        "{name}{capability}\nA multiprocessor: {} threads, {} blocks, {} registers, {} shared memory",
        count(limits.threads.into()),
        limits.blocks,
        count(limits.registers.into()),
        bytes(limits.shared_bytes.into()),
    )
}

/// A block of no kernel.
pub fn block_text(limits: &Limits, entry: &Entry) -> String {
    let demand = entry.demand;
    let mut lines = vec![format!(
        "A block: {} threads, {}, {} shared memory",
        count(demand.threads.into()),
        match demand.registers {
            0 => "registers left out of account".to_owned(),
            registers => format!("{registers} registers a thread"),
        },
        bytes(demand.shared_bytes.into()),
    )];
    match &entry.occupancy {
        Err(why) => lines.push(format!("\nIt cannot be launched: {why}")),
        Ok(found) => {
            lines.push(format!("\n{}", in_words(found)));
            let room = found.room;
            lines.push(format!(
                "room for blocks: {} by threads, {} by registers, {} by shared memory, {} slots",
                room.threads,
                or_dash(room.registers),
                or_dash(room.shared_memory),
                room.blocks,
            ));
            lines.push(format!(
                "used: {} of {} registers, {} of {} shared memory",
                count(found.registers_used.into()),
                count(limits.registers.into()),
                bytes(found.shared_bytes_used.into()),
                bytes(limits.shared_bytes.into()),
            ));
        }
    }
    if demand.registers > 0 {
        let step = |registers, outcome: &Result<Occupancy, CannotLaunch>| {
            let outcome = outcome.as_ref().map_or_else(|why| format!("fails: {why}"), in_words);
            format!("with {registers} registers: {outcome}")
        };
        if let Some(fewer) = &entry.steps.one_fewer {
            lines.push(step(demand.registers - 1, fewer));
        }
        lines.push(step(demand.registers.saturating_add(1), &entry.steps.one_more));
    }
    if let Some(registers) = entry.steps.more_blocks_up_to {
        lines.push(format!("more blocks with up to {registers} registers"));
    }
    if let Some(registers) = entry.steps.fewer_blocks_from {
        lines.push(format!("fewer blocks from {registers} registers on"));
    }
    lines.join("\n")
}

fn in_words(found: &Occupancy) -> String {
    let plural = if found.blocks == 1 { "" } else { "s" };
    format!(
        "{} resident block{plural}, {} of {} warps ({}), limited by {}",
        found.blocks,
        found.warps,
        found.most_warps,
        percent(found.share()),
        limiters(&found.limited_by, " and "),
    )
}

fn limiters(limiters: &[Limiter], separator: &str) -> String {
    limiters.iter().map(|limiter| limiter.name()).collect::<Vec<_>>().join(separator)
}

/// A row a kernel; with the driver's answers where there are any. Why kernels cannot be launched stands below, a line
/// for each reason, since in a column it would make all rows as long.
pub fn kernels_table(entries: &[Entry]) -> String {
    let mut heading = vec![
        "kernel",
        "threads",
        "registers",
        "shared memory",
        "resident blocks",
        "warps",
        "share",
        "limited by",
        "one more register",
        "one fewer register",
    ];
    let with_driver = entries.iter().any(|entry| entry.driver.is_some());
    if with_driver {
        heading.push("driver's blocks");
    }
    let mut reasons = Reasons::default();
    let rows = entries.iter().map(|entry| {
        let mut row = row(entry, &mut reasons);
        if with_driver {
            row.push(or_dash(entry.driver));
        }
        row
    });
    let rows: Vec<_> = rows.collect();
    table(&heading, rows) + &reasons.notes()
}

/// Why kernels cannot be launched, each reason once.
#[derive(Default)]
pub struct Reasons(Vec<String>);

impl Reasons {
    /// What a cell says of such a kernel: the number of the reason.
    pub fn cell(&mut self, why: &CannotLaunch) -> String {
        let why = why.to_string();
        let place = self.0.iter().position(|known| *known == why).unwrap_or_else(|| {
            self.0.push(why);
            self.0.len() - 1
        });
        format!("cannot be launched [{}]", place + 1)
    }

    /// A line for each, to stand below the table.
    pub fn notes(&self) -> String {
        let notes = self.0.iter().zip(1..);
        notes.map(|(why, note): (_, usize)| format!("\n[{note}] {why}")).collect()
    }
}

/// The cells of a kernel; a reason why it cannot be launched is a number among all reasons.
fn row(entry: &Entry, reasons: &mut Reasons) -> Vec<String> {
    let demand = entry.demand;
    let mut row = vec![
        entry.kernel.unwrap_or_default().to_owned(),
        demand.threads.to_string(),
        or_dash(entry.registers()),
        bytes(demand.shared_bytes.into()),
    ];
    match &entry.occupancy {
        Ok(found) => row.extend([
            found.blocks.to_string(),
            found.warps.to_string(),
            percent(found.share()),
            limiters(&found.limited_by, ", "),
        ]),
        Err(why) => {
            let nothing = || "-".to_owned();
            row.extend([nothing(), nothing(), nothing(), reasons.cell(why)]);
        }
    }
    let steps = &entry.steps;
    row.push(step(entry, Some(&steps.one_more), "fewer from", steps.fewer_blocks_from));
    row.push(step(entry, steps.one_fewer.as_ref(), "more up to", steps.more_blocks_up_to));
    row
}

/// What a register more or fewer does; where it does nothing, where the next change is.
fn step(
    entry: &Entry,
    outcome: Option<&Result<Occupancy, CannotLaunch>>,
    change: &str,
    next: Option<u32>,
) -> String {
    match (outcome, next) {
        (None, _) => "-".to_owned(),
        (Some(Err(_)), _) => "fails".to_owned(),
        (Some(Ok(found)), _) if found.blocks != entry.blocks() => {
            let plural = if found.blocks == 1 { "" } else { "s" };
            format!("{} block{plural}", found.blocks)
        }
        (Some(Ok(_)), Some(next)) => format!("same, {change} {next}"),
        (Some(Ok(_)), None) => "same".to_owned(),
    }
}
