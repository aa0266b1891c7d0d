//! The tables of `regemm traffic`.

use super::{Row, Survey, WithoutSpeed};
use crate::command::occupancy_text::Reasons;
use crate::command::output::{bytes, count, or_dash, table};
use regemm::Rung;
use regemm::traffic::roofline::Attainable;
use std::fmt::Write;

/// A quantity of the traffic: heading and name.
type Quantity = (&'static str, &'static str);

const GLOBAL: [Quantity; 3] = [
    ("bytes loaded", "global_load_bytes"),
    ("sectors loaded", "global_load_sectors"),
    ("sectors stored", "global_store_sectors"),
];

const SHARED: [Quantity; 4] = [
    ("bytes loaded", "shared_load_bytes"),
    ("bytes stored", "shared_store_bytes"),
    ("passes", "shared_passes"),
    ("bank conflicts", "bank_conflicts"),
];

const WORK: [Quantity; 3] = [
    ("global load requests", "global_load_requests"),
    ("barriers", "block_barriers"),
    ("multiply-adds", "fma"),
];

/// Behind the number of a formula that must give what was counted and does not.
const DIFFERS: &str = " \u{2260}";
/// Behind the number of a formula that is approximate.
const APPROXIMATE: &str = " \u{2248}";

const NOTES: &str = "\
Fewer than above: how many times fewer bytes are loaded than by the kernel in the row above.
Bytes are what lanes receive or store, a broadcast once for each lane. A sector is 32 bytes, counted once a request; flop /
byte of global memory is for all sectors. A pass serves up to 128 bytes of shared memory, in one clock of a multiprocessor
(on Turing in two). Without caches every sector comes from global memory; perfect caches fetch A and B and store D once, and
the L1 cache hands out as much as shared memory. Real caches lie between. Passes are those of the kernel as it is written: the compiler may merge
loads of neighbours, so a kernel held back by shared memory may come out a few percent faster.";

/// All tables.
pub fn text(survey: &Survey) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(survey, &mut text);
    text
}

fn write_text(survey: &Survey, text: &mut String) -> std::fmt::Result {
    let counted = survey.rows.iter().any(|row| row.counted.is_some());
    let source = if counted {
        "counted on the simulator, beside the formula of each kernel"
    } else {
        "by the formula of each kernel, nothing counted"
    };
    writeln!(text, "{}, {}: {source}", survey.size, survey.problem.types())?;

    let global = |index: usize, row: &Row| {
        let fewer = survey.fewer_loads(index).map(|factor| format!("{factor:.2} x"));
        vec![or_dash(fewer), intensity(Some(row.placement.global_intensity))]
    };
    let shared = |_: usize, row: &Row| vec![intensity(row.placement.shared_intensity)];
    writeln!(text, "\nGlobal memory")?;
    writeln!(
        text,
        "{}",
        quantities(survey, &GLOBAL, &["fewer than above", "flop / byte"], global)
    )?;
    writeln!(text, "\nShared memory")?;
    writeln!(text, "{}", quantities(survey, &SHARED, &["flop / byte"], shared))?;
    writeln!(text, "\nWork")?;
    writeln!(text, "{}", quantities(survey, &WORK, &[], |_, _| Vec::new()))?;

    let roofs = &survey.roofs;
    let giga = |value: f64| count((value / 1e9).round() as u64);
    let on_tensor_cores = survey.rows.iter().any(|row| row.kernel.rung >= Rung::TensorCore);
    let tensor_peak = match roofs.tensor_peak_flops {
        _ if !on_tensor_cores => String::new(),
        Some(peak) => format!(", of tensor cores {}", giga(peak)),
        None => ", of tensor cores not known".to_owned(),
    };
    writeln!(
        text,
        "\nRoofline of {}: peak {} GFLOP/s{tensor_peak}, global memory {} GB/s, shared memory {} GB/s",
        survey.gpu.name,
        giga(roofs.peak_flops),
        giga(roofs.bandwidth),
        giga(roofs.shared_bandwidth)
    )?;
    if let Some(name) = survey.measured_elsewhere() {
        writeln!(text, "Measured speeds are those of another device: {name}")?;
    }
    writeln!(text, "{}", roofline(survey))?;
    if let Some(l2) = survey.gpu.l2_bytes {
        let operands = survey.operand_bytes();
        let fits = if operands <= l2 { "fit into" } else { "do not fit into" };
        let (operands, l2) = (bytes(operands), bytes(l2));
        writeln!(text, "A, B and D are {operands} and {fits} the L2 cache of {l2}.")?;
    }
    if !survey.left_out.is_empty() {
        let names: Vec<&str> = survey.left_out.iter().map(|kernel| kernel.name).collect();
        writeln!(
            text,
            "{} kernels are without a formula, and so left out: {}.",
            names.len(),
            names.join(", ")
        )?;
    }
    write!(text, "{NOTES}")
}

/// A table of quantities, each counted and worked out, with more columns of any kind behind.
fn quantities(
    survey: &Survey,
    columns: &[Quantity],
    more: &[&str],
    cells: impl Fn(usize, &Row) -> Vec<String>,
) -> String {
    let counted = survey.rows.iter().any(|row| row.counted.is_some());
    let mut heading = vec!["kernel"];
    for (title, _) in columns {
        heading.push(title);
        if counted {
            heading.push("formula");
        }
    }
    heading.extend(more);
    let rows = survey.rows.iter().enumerate().map(|(index, row)| {
        let mut line = vec![row.kernel.name.to_owned()];
        for &(_, name) in columns {
            line.extend(pair(row, name));
        }
        line.extend(cells(index, row));
        line
    });
    table(&heading, rows)
}

/// What was counted, if anything, and what the formula gives, with a mark where they differ.
fn pair(row: &Row, name: &'static str) -> Vec<String> {
    let named = |fields: &[(&'static str, u64)]| {
        fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value)
    };
    let formula = named(&row.formula.traffic.fields()).unwrap_or_default();
    let approximate = row.formula.approximate == Some(name);
    let Some(traffic) = &row.counted else {
        return vec![count(formula) + if approximate { APPROXIMATE } else { "" }];
    };
    let counted = named(&traffic.fields()).unwrap_or_default();
    let mark = match (counted == formula, approximate) {
        (true, _) => "",
        (false, true) => APPROXIMATE,
        (false, false) => DIFFERS,
    };
    vec![count(counted), count(formula) + mark]
}

fn intensity(value: Option<f64>) -> String {
    or_dash(value.map(|value| format!("{value:.3}")))
}

fn roofline(survey: &Survey) -> String {
    let measured = survey.rows.iter().any(|row| row.attained.is_some());
    let mut heading = vec![
        "kernel",
        "without caches",
        "of peak",
        "held back by",
        "perfect caches",
        "of peak",
        "held back by",
    ];
    // Of another GPU's peak a speed is no share.
    let elsewhere = survey.measured_elsewhere().is_some();
    if measured {
        heading.push("measured");
        if !elsewhere {
            heading.push("of peak");
        }
    }
    let speed = |flops: f64| count((flops / 1e9).round() as u64);
    let mut reasons = Reasons::default();
    let rows = survey.rows.iter().map(|row| {
        let peak = survey.gpu.peak_flops_of(row.kernel);
        let share = |flops: f64| or_dash(peak.map(|peak| format!("{:.1} %", 100.0 * flops / peak)));
        let attainable = |Attainable { flops, bound }: Attainable| {
            [speed(flops), share(flops), bound.to_string()]
        };
        let mut line = vec![row.kernel.name.to_owned()];
        match (row.attainable(), &row.without_speed) {
            (Some(speeds), _) => line.extend(speeds.into_iter().flat_map(attainable)),
            (None, why) => {
                let nothing = || "-".to_owned();
                let why = match why {
                    Some(WithoutSpeed::CannotLaunch(why)) => reasons.cell(why),
                    _ => "peak not known".to_owned(),
                };
                line.extend([nothing(), nothing(), why, nothing(), nothing(), nothing()]);
            }
        }
        if measured {
            line.push(or_dash(row.attained.map(speed)));
            if !elsewhere {
                line.push(or_dash(row.attained.map(share)));
            }
        }
        line
    });
    let rows: Vec<_> = rows.collect();
    table(&heading, rows) + &reasons.notes()
}
