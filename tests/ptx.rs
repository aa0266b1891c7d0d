//! The embedded PTX is what the kernels' design says, for every kernel and every architecture. Needs no GPU.
//!
//! These tests read PTX text; what ptxas makes of it (registers, spills) is seen only when it is assembled. Names and
//! section numbers are those of NVIDIA's PTX ISA manual, version 8.

use regemm::kernels::kernels;
use regemm::{Dtype, KernelInfo, Layout, Layouts, PtxModule, Rung, ptx_modules};
use regemm_kernels::kernel::{Needs, Schedule};
use regemm_kernels::table::{
    HALVES, IF_MARKED, REDUCERS, REPACKER, ROUNDED, ROUNDER, SPLITTER, TF32,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What the library is compiled for, and the threads that a multiprocessor of it can hold (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
const ARCHS: [(&str, u32); 3] = [("sm_75", 1024), ("sm_80", 2048), ("sm_90a", 2048)];

/// All PTX together stays below this many bytes. What it costs is the time to build the library: a megabyte takes the compiler
/// some ten seconds. A table that grows by a few kernels fits; one whose kernels all grow does not.
const TEXT_LIMIT: usize = 60_000_000;

/// All PTX together, packed as it is embedded, stays below this many bytes: every program that uses the library carries it.
const EMBEDDED_LIMIT: usize = 12_000_000;

/// What of all PTX is embedded at most. That much more than it is means that something else was packed, or nothing.
const PACKED_TO: f64 = 0.25;

/// All modules and their PTX.
static TEXTS: LazyLock<Vec<(&PtxModule, String)>> = LazyLock::new(|| {
    let text = |module: &'static PtxModule| (module, module.text().unwrap());
    ptx_modules().iter().map(text).collect()
});

/// The one module of an entry for an architecture, and its PTX.
fn module_of(entry: &str, arch: &str) -> (&'static PtxModule, &'static str) {
    let found = TEXTS.iter().filter(|(module, _)| module.entry == entry && module.arch == arch);
    let found: Vec<_> = found.collect();
    let [(module, text)] = found[..] else {
        panic!("{} modules of {entry} for {arch}", found.len())
    };
    (module, text)
}

/// A module that belongs to a kernel of the table.
struct Module {
    kernel: &'static KernelInfo,
    ptx: &'static PtxModule,
    text: &'static str,
    resident_threads: u32,
}

impl Module {
    /// For messages.
    fn name(&self) -> String {
        format!("{} for {}", self.ptx.entry, self.ptx.arch)
    }

    /// The text without comments.
    fn lines(&self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code))
    }

    /// The words of the text: opcodes, directives and operands without the punctuation between them.
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.lines().flat_map(words)
    }

    /// The bulk loads.
    fn bulk_loads(&self) -> Vec<&'static str> {
        self.words()
            .filter(|word| {
                word.starts_with("cp.async.bulk.tensor") && word.contains(".global.tile.")
            })
            .collect()
    }

    /// Those of a slice: rows across k come in boxes of 64, and of B each block of a cluster brings its part to all.
    fn expected_bulk_loads(&self) -> Vec<&'static str> {
        const ONE: &str =
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
        const TO_ALL: &str = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster";
        let Layouts { a, b } = self.kernel.layouts;
        let of_a = if a == Layout::Transposed { self.kernel.tile.bm / 64 } else { 1 };
        let of_b = if b == Layout::RowMajor { self.kernel.tile.bn / 64 } else { 1 };
        let mut expected = vec![ONE; of_a as usize];
        match self.kernel.cluster {
            1 => expected.extend(vec![ONE; of_b as usize]),
            _ if self.kernel.schedule == Schedule::ClusterK => {
                expected.extend(vec![ONE; of_b as usize])
            }
            blocks => expected.extend(vec![TO_ALL; of_b.div_ceil(blocks) as usize]),
        }
        expected
    }

    /// Checks that the bulk loads are those of whole slices.
    fn check_bulk_loads(&self) {
        let (loads, expected) = (self.bulk_loads(), self.expected_bulk_loads());
        assert!(!loads.is_empty(), "{}", self.name());
        for loads in loads.chunks(expected.len()) {
            assert_eq!(loads, expected, "{}", self.name());
        }
    }

    /// Whether warpgroups end in the epilogue.
    fn finishes_in_bulk(&self) -> bool {
        let finishes =
            self.kernel.rung == Rung::Warpgroup || self.kernel.schedule == Schedule::ClusterK;
        self.kernel.boxes.is_some() && finishes
    }

    /// Whether tensor cores multiply in double precision.
    fn multiplies_doubles(&self) -> bool {
        matches!(self.kernel.needs, Needs::DoubleTensorCores | Needs::DoubleTensorCoresInClusters)
    }

    /// Every load and store but those of parameters.
    fn accesses(&self) -> impl Iterator<Item = &'static str> {
        self.words()
            .filter(|word| word.starts_with("ld.") || word.starts_with("st."))
            .filter(|word| !word.starts_with("ld.param."))
    }

    /// Whether slices come to shared memory by `cp.async`, which exists from sm_80 on (section 9.7.9.25.3.1).
    fn copies_asynchronously(&self) -> bool {
        let in_stages = self.kernel.rung >= Rung::Pipelined && self.kernel.tile.stages > 0;
        in_stages && self.ptx.arch != "sm_75"
    }

    /// Whether the target has the kernel's instructions; where it does not, the host refuses to launch it.
    fn can_run(&self) -> bool {
        let capability = match self.ptx.arch {
            "sm_75" => (7, 5),
            "sm_80" => (8, 0),
            "sm_90a" => (9, 0),
            arch => panic!("the compute capability of {arch}"),
        };
        self.kernel.needs.met_by(capability)
    }

    /// The basic blocks: runs of words between labels and branches.
    fn blocks(&self) -> Vec<Vec<&'static str>> {
        let mut blocks = vec![Vec::new()];
        for line in self.lines() {
            let words: Vec<_> = words(line).collect();
            let label =
                words.first().is_some_and(|word| word.starts_with('$') && word.ends_with(':'));
            let branch =
                words.iter().any(|word| word.starts_with("bra") || word.starts_with("brx"));
            if label || branch {
                blocks.push(Vec::new());
            } else if let Some(block) = blocks.last_mut() {
                block.extend(words);
            }
        }
        blocks
    }

    /// The blocks that multiply: those with fused multiply-adds and at least two loads of operands. The epilogue's
    /// blocks load one operand at most.
    fn multiplying_blocks(&self) -> Vec<Vec<&'static str>> {
        let mut blocks = self.blocks();
        blocks.retain(|block| {
            let loads = block.iter().filter(|word| word.starts_with(self.operand_load())).count();
            loads >= 2 && block.contains(&self.fma())
        });
        blocks
    }

    /// The multiply-add of the kernel's sums.
    fn fma(&self) -> &'static str {
        match self.kernel.dtype {
            Dtype::F64 => "fma.rn.f64",
            _ => "fma.rn.f32",
        }
    }

    /// The multiply-add of the other precision.
    fn other_fma(&self) -> &'static str {
        match self.kernel.dtype {
            Dtype::F64 => "fma.rn.f32",
            _ => "fma.rn.f64",
        }
    }

    /// How the main loop gets its operands.
    fn operand_load(&self) -> &'static str {
        match self.kernel.rung {
            Rung::Naive => "ld.global.",
            _ => "ld.shared.",
        }
    }

    /// Pieces of 64 rows that each of two warpgroups has of a tile.
    fn pieces(&self) -> u32 {
        self.kernel.tile.bm / 2 / 64
    }

    /// Parts of 128 bytes a row in which a warp's rows of a tile of D leave.
    fn parts_of_d(&self) -> usize {
        self.pieces() as usize * self.kernel.tile.bn as usize * self.kernel.target.bytes() / 128
    }

    /// Whether pairs of sums of f32 go through shared memory as they are: matrices of other elements do so together.
    fn stores_pairs_of_f32(&self) -> bool {
        self.kernel.rung == Rung::Warpgroup && self.kernel.target == Dtype::F32
    }

    /// Bytes of a loaded operand: an element, or where it comes from shared memory one as wide as the sums.
    fn operand_bytes(&self) -> u32 {
        match (self.kernel.dtype, self.kernel.rung) {
            (Dtype::F64, _) => 8,
            (Dtype::F16 | Dtype::Bf16, Rung::Naive) => 2,
            _ => 4,
        }
    }
}

fn words(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split(|c: char| c.is_whitespace() || ";{},()".contains(c)).filter(|word| !word.is_empty())
}

/// Bytes that a load or store moves, from the types at its end: `.v4.b32`, `.b64`.
fn bytes(access: &str) -> u32 {
    let mut parts = access.rsplit('.');
    let bits: u32 = parts.next().unwrap()[1..].parse().unwrap();
    let count = parts.next().unwrap().strip_prefix('v').map_or(1, |count| count.parse().unwrap());
    bits / 8 * count
}

/// The module of every kernel of the table for every architecture that can run it.
fn modules() -> Vec<Module> {
    let mut modules = all_modules();
    modules.retain(Module::can_run);
    modules
}

/// The kernels of the table that have an entry of their own, and do not share that of another.
fn kernels_with_entries() -> impl Iterator<Item = &'static KernelInfo> {
    kernels().iter().filter(|kernel| kernel.entry.name == kernel.name)
}

/// The module of every kernel of the table for every architecture; each exists once.
fn all_modules() -> Vec<Module> {
    let mut modules = Vec::new();
    for kernel in kernels_with_entries() {
        for (arch, resident_threads) in ARCHS {
            let (ptx, text) = module_of(kernel.name, arch);
            modules.push(Module { kernel, ptx, text, resident_threads });
        }
    }
    modules
}

/// Catches a kernel that was compiled for fewer architectures or twice, a module that belongs to no row of the table,
/// and PTX that grows out of bounds (an epilogue that is copied for every sum, say).
#[test]
fn every_kernel_has_one_module_for_each_architecture() {
    let found = all_modules().len();
    assert_eq!(found, kernels_with_entries().count() * ARCHS.len());
    let of_precisions = HALVES.len() + IF_MARKED.len() + TF32.len() + ROUNDED.len();
    let others = REDUCERS.len() + [REPACKER, SPLITTER, ROUNDER].len() + of_precisions;
    let others = others * ARCHS.len();
    assert_eq!(ptx_modules().len(), found + others, "a module belongs to no kernel of the table");
    let text: usize = TEXTS.iter().map(|(_, text)| text.len()).sum();
    let embedded: usize = ptx_modules().iter().map(|module| module.packed.len()).sum();
    println!("{text} bytes of PTX, embedded as {embedded}");
    assert!(text < TEXT_LIMIT, "{text} bytes of PTX, the limit is {TEXT_LIMIT}");
    assert!(embedded < EMBEDDED_LIMIT, "{embedded} bytes embedded, the limit is {EMBEDDED_LIMIT}");
    assert!((embedded as f64) < text as f64 * PACKED_TO, "{embedded} bytes embedded of {text}");
}

/// Catches modules that are split wrongly (a second entry, a function left behind) or made for another target, and a
/// parameter that the device's compiler lays out otherwise than the host's.
#[test]
fn a_module_is_one_entry_for_its_target() {
    for module in all_modules() {
        let (name, entry, text) = (module.name(), module.kernel.name, module.text);
        let directive = |wanted: &str| {
            let lines = module.lines().map(str::trim);
            let mut found: Vec<_> = lines.filter_map(|line| line.strip_prefix(wanted)).collect();
            assert_eq!(found.len(), 1, "{name}: {wanted} is given once");
            found.remove(0).trim()
        };
        assert_eq!(directive(".target"), module.ptx.arch, "{name}");
        let (major, minor) = module.ptx.isa;
        assert_eq!(directive(".version"), format!("{major}.{minor}"), "{name}");
        assert_eq!(directive(".address_size"), "64", "{name}");
        assert_eq!(directive(".visible .entry"), format!("{entry}("), "{name}");
        let entries = module.words().filter(|&word| word == ".entry").count();
        assert_eq!(entries, 1, "{name}");

        // Three maps, and whether the last counts, come after the parameters of all kernels.
        let parameters = module.kernel.entry.parameters;
        assert_eq!(parameters.len(), if module.kernel.boxes.is_some() { 5 } else { 1 }, "{name}");
        for (index, parameter) in parameters.iter().enumerate() {
            let (align, size) = (parameter.align, parameter.size);
            let declared = if size > 4 {
                format!(".param .align {align} .b8 {entry}_param_{index}[{size}]")
            } else {
                format!(".param .u32 {entry}_param_{index}")
            };
            assert!(text.contains(&declared), "{name}: no {declared}");
        }
        let declared = module.words().filter(|&word| word == ".param").count();
        assert_eq!(declared, parameters.len(), "{name}");
    }
}

/// Catches launch bounds that got lost on the way from the attribute to the entry (ptxas would then take as many
/// registers as it likes), that disagree with the table, or that ptxas would ignore because a multiprocessor cannot
/// hold so many blocks.
#[test]
fn launch_bounds_are_those_of_the_table() {
    for module in all_modules() {
        let name = module.name();
        let (header, _) = module.text.split_once("\n{").unwrap();
        let bound = |directive: &str| {
            let values = header.lines().filter_map(|line| line.strip_prefix(directive));
            values.map(|value| value.trim().parse::<u32>().unwrap()).collect::<Vec<_>>()
        };
        let threads = module.kernel.threads();
        assert_eq!(bound(".maxntid"), [threads], "{name}");
        let asked_for = module.kernel.entry.min_blocks.unwrap();
        let blocks = asked_for.min(module.resident_threads / threads);
        assert_eq!(bound(".minnctapersm"), [blocks], "{name}");
        let cluster = header.lines().find_map(|line| line.strip_prefix(".reqnctapercluster "));
        let blocks = module.kernel.cluster;
        let expected = (blocks > 1 && module.can_run()).then(|| format!("{blocks}, 1, 1"));
        assert_eq!(cluster, expected.as_deref(), "{name}");
    }
}

/// Catches sums or operands that live in local memory because something indexes them at run time, functions that were
/// not inlined, and panic paths, which are bounds checks that the compiler could not prove away.
#[test]
fn there_is_no_local_memory_no_call_and_no_trap() {
    for module in modules() {
        for word in module.words() {
            let mut parts = word.split('.');
            let opcode = parts.next().unwrap_or_default();
            assert!(!["call", "trap", "alloca"].contains(&opcode), "{}: {word}", module.name());
            assert!(
                !parts.any(|part| ["local", "func"].contains(&part)),
                "{}: {word}",
                module.name()
            );
        }
    }
}

/// Catches a kernel that would go on where its instructions are missing, and with something else in their place.
#[test]
fn where_its_instructions_are_missing_a_kernel_only_traps() {
    let mut trapping = 0;
    for module in all_modules().iter().filter(|module| !module.can_run()) {
        let (_, body) = module.text.split_once("\n{").unwrap();
        let found: Vec<_> = body.lines().flat_map(words).collect();
        assert_eq!(found, ["trap", "exit"], "{}", module.name());
        trapping += 1;
    }
    assert!(trapping > 0, "all kernels run everywhere: then there is nothing to refuse");
}

/// Catches kernels that are launched while others end and do not wait for them. Older targets have no such launches.
#[test]
fn kernels_that_start_early_wait() {
    for module in modules().iter().filter(|module| module.can_run()) {
        let waits = module.words().any(|word| word == "griddepcontrol.wait");
        let early = module.kernel.entry.early_start && module.ptx.arch == "sm_90a";
        assert_eq!(waits, early, "{}", module.name());
    }
}

/// Catches generic accesses: a pointer that went round `cuda_std`, which the simulator cannot see and for which the GPU
/// has to find out the state space.
#[test]
fn every_access_names_its_state_space() {
    for module in modules() {
        let shared = module.kernel.rung == Rung::Tiled || module.kernel.shared_bytes > 0;
        let mut loads_and_stores = BTreeSet::new();
        for access in module.accesses() {
            let mut parts = access.split('.');
            loads_and_stores.insert((parts.next().unwrap(), parts.next().unwrap()));
        }
        let mut expected = BTreeSet::from([("st", "global")]);
        // Tiles of both factors may come by themselves, and the epilogue may be another kernel's: then nothing is left to load.
        if module.kernel.rung != Rung::SplitK
            || !module.copies_asynchronously()
            || module.finishes_in_bulk()
            || module.multiplies_doubles()
        {
            expected.insert(("ld", "global"));
        }
        // Warpgroups multiply from shared memory, and pass their sums through it only if they end in the epilogue.
        let in_bulk = module.kernel.boxes.is_some();
        if shared && (!in_bulk || module.finishes_in_bulk()) {
            expected.insert(("ld", "shared"));
        }
        // Slices that are not copied asynchronously, or the sums on their way to D.
        let by_hand = (module.kernel.producers > 0 && !in_bulk)
            || module.kernel.rung == Rung::TensorCore
            || module.multiplies_doubles()
            || module.stores_pairs_of_f32()
            // What of A's slices lies outside of it.
            || (in_bulk && module.kernel.rung == Rung::SplitK);
        if shared && (!module.copies_asynchronously() || by_hand) {
            expected.insert(("st", "shared"));
        }
        // Signals to other blocks.
        if matches!(module.kernel.rung, Rung::StreamK | Rung::Warpgroup) {
            expected.extend([("ld", "acquire"), ("st", "release"), ("st", "relaxed")]);
        }
        // Sums of the other block.
        if module.kernel.schedule == Schedule::ClusterK {
            expected.insert(("ld", "shared::cluster"));
        }
        assert_eq!(loads_and_stores, expected, "{}", module.name());
        let copies = module.words().any(|word| word.starts_with("cp.async."));
        assert_eq!(copies, module.copies_asynchronously(), "{}", module.name());
    }
}

/// Catches wide accesses that fell apart into single ones, and ones where they were not meant. Each access of the upper
/// rungs has a narrow twin for matrices whose rows are not whole vectors, so both must be there.
#[test]
fn accesses_are_as_wide_as_meant() {
    const WIDE: &str = "v4.b32";
    for module in modules() {
        let wide = |access: &str| module.accesses().any(|word| word == format!("{access}.{WIDE}"));
        let name = module.name();
        let doubles = module.multiplies_doubles();
        match if doubles { Rung::TensorCore } else { module.kernel.rung } {
            Rung::Naive | Rung::Tiled => {
                let any = module.accesses().find(|access| access.contains(".v"));
                assert_eq!(any, None, "{name}");
            }
            Rung::Microkernel | Rung::DoubleBuffered => {
                // Rows and columns of a thread tile may be shorter than a vector, and so are its accesses.
                let tile = module.kernel.tile;
                let short = tile.tm.min(tile.tn) * module.operand_bytes() < 16;
                let b64 = |start: &str| {
                    module.accesses().any(|word| word.starts_with(start) && bytes(word) == 8)
                };
                let as_wide = |access: &str| if short { b64(access) } else { wide(access) };
                assert!(as_wide("ld.shared"), "{name}: the thread tiles' operands");
                assert!(wide("st.shared"), "{name}: the slice of B");
                // A thread's share of a slice of half-precision elements may be only 8 bytes, and so its vectors.
                let half = matches!(module.kernel.dtype, Dtype::F16 | Dtype::Bf16);
                if half {
                    assert!(b64("ld.global"), "{name}: loads of A and B");
                } else {
                    assert!(wide("ld.global"), "{name}: loads of A and B");
                    assert!(as_wide("st.global"), "{name}: stores of D");
                }
            }
            Rung::TensorCore => {
                assert!(wide("ld.shared"), "{name}: sums on their way to D");
                // 4 results, or a vector of them.
                let stored_bytes = (4 * module.kernel.target.bytes() as u32).min(16);
                let stored =
                    |word: &str| word.starts_with("st.global") && bytes(word) == stored_bytes;
                assert!(module.accesses().any(stored), "{name}: stores of D");
                for copy in ["cp.async.cg.shared.global", "cp.async.ca.shared.global"] {
                    assert!(module.words().any(|word| word == copy), "{name}: {copy}");
                }
            }
            Rung::Warpgroup => {
                let count = |word: &str| module.words().filter(|&found| found == word).count();
                // The compiler may write them once for each kind of part that a block sums.
                module.check_bulk_loads();
                // D leaves in boxes as wide, each at a place of its own where it is only scaled, and else all at one.
                let of_d = module.parts_of_d() + 1;
                let store = "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group";
                assert_eq!(count(store), of_d, "{name}");
                assert_eq!(count("fence.proxy.async.shared::cta"), of_d, "{name}");
                assert_eq!(count("cp.async.bulk.commit_group"), of_d, "{name}");
                assert_eq!(count("cp.async.bulk.wait_group.read"), of_d + 1, "{name}");
                let written = count("stmatrix.sync.aligned.m8n8.x4.shared.b16");
                let most = if module.stores_pairs_of_f32() {
                    let pairs = |word: &&str| word.starts_with("st.shared") && bytes(word) == 8;
                    assert_eq!(module.accesses().filter(pairs).count(), 8 * of_d, "{name}: pairs");
                    assert_eq!(written, 0, "{name}");
                    8
                } else {
                    assert_eq!(written, 4 * (of_d - 1) + 2, "{name}: blocks of D");
                    4
                };
                // Elements of the epilogue in pairs, and of a D that is not mapped words.
                // But for sums that are handed over, in vectors.
                let sums = ["ld.global.v4.b32", "st.global.v4.b32"];
                let of_lane = module.kernel.tile.tm * module.kernel.tile.tn;
                assert_eq!(sums.map(count), [of_lane as usize / 4; 2], "{name}: handed over");
                let others = || module.accesses().filter(|word| !sums.contains(word));
                let wider = others().find(|word| bytes(word) > most);
                assert_eq!(wider, None, "{name}");
                let stored = |word: &&str| word.starts_with("st.global") && bytes(word) > 4;
                assert_eq!(others().find(stored), None, "{name}");
            }
            _ if module.kernel.boxes.is_some() => {
                // A transposed A is brought by a loop over what there is of it.
                if module.kernel.layouts.a == Layout::RowMajor {
                    // The compiler may write those of several slices after each other.
                    module.check_bulk_loads();
                }
                let of_lane = module.kernel.tile.tm * module.kernel.tile.tn;
                if module.kernel.schedule == Schedule::ClusterK {
                    let count = |word: &str| module.words().filter(|&found| found == word).count();
                    let loads = count("ld.shared::cluster.v4.b32");
                    assert_eq!(loads as u32, of_lane / 4, "{name}: sums of the other block");
                    continue;
                }
                let pairs = module.words().filter(|&word| word == "st.global.b64").count();
                assert_eq!(pairs as u32, of_lane / 2, "{name}: sums of a slice");
            }
            Rung::Skinny => assert!(wide("ld.global"), "{name}: the large factor"),
            _ if module.kernel.producers > 0 => {
                assert!(
                    wide("ld.shared"),
                    "{name}: the thread tiles' operands, sums on their way to D"
                );
                assert!(wide("st.global"), "{name}: stores of D");
                // Rows of slices are copied to their places, and columns to places of the producers' own.
                let vector = module.words().any(|word| word == "cp.async.cg.shared.global");
                assert!(vector, "{name}: copies of whole vectors");
            }
            Rung::Pipelined
            | Rung::WarpTiled
            | Rung::Decoupled
            | Rung::WarpSpecialised
            | Rung::SlicedK
            | Rung::SplitK
            | Rung::StreamK => {
                assert!(wide("ld.shared"), "{name}: the thread tiles' operands");
                assert!(wide("st.global"), "{name}: stores of D");
                // A factor whose rows are columns of its slices is transposed on the way, element by element.
                let Layouts { a, b } = module.kernel.layouts;
                let straight = a == Layout::Transposed || b == Layout::RowMajor;
                if module.copies_asynchronously() {
                    // Only copies of 16 bytes go past the L1 cache.
                    let vector = module.words().any(|word| word == "cp.async.cg.shared.global");
                    assert_eq!(vector, straight, "{name}: copies of whole vectors");
                } else if straight {
                    assert!(wide("st.shared") && wide("ld.global"), "{name}: whole vectors");
                }
            }
        }
    }
}

/// Catches a barrier that was lost, or one too many: the design has two around the use of the slices, with two stages
/// one for the first slices and one for each after them, and in a pipeline one for each.
#[test]
fn barriers_are_as_designed() {
    const SLICED: &[&str] = &["bar.sync", "bar.warp.sync", "bar.warp.sync", "bar.sync", "bar.sync"];
    for module in modules() {
        let barrier = |word: &&str| word.starts_with("bar.") || word.starts_with("barrier.");
        let mut found: Vec<_> = module.words().filter(barrier).collect();
        if module.multiplies_doubles() {
            // Before the first slice, in the loop and after it, of which there is one for each length of copies, and among the lanes that have
            // written sums; then those of a cluster, of which the compiler may write some once for either half of the warps.
            let count = |word: &str| found.iter().filter(|&&found| found == word).count();
            assert_eq!((count("bar.sync"), count("bar.warp.sync")), (6, 1), "{}", module.name());
            let of_cluster = found.iter().filter(|word| word.starts_with("barrier.cluster."));
            assert_eq!(of_cluster.count() > 0, module.kernel.cluster > 1, "{}", module.name());
            continue;
        }
        let expected: &[&str] = match module.kernel.rung {
            Rung::Naive => &[],
            Rung::Tiled | Rung::Microkernel | Rung::DoubleBuffered => &["bar.sync"; 2],
            Rung::Pipelined => &["bar.sync"],
            // As with warp specialisation, but that the sums are added up on their way, for which all consumers have to be there.
            Rung::SlicedK => SLICED,
            // As below, where nobody reads the stages any more, between the writes and the reads of sums, and after these; what comes then
            // the compiler writes once for either warpgroup.
            Rung::SplitK if module.kernel.schedule == Schedule::ClusterK => {
                const FIRST: [&str; 7] = [
                    "bar.sync",
                    "bar.warp.sync",
                    "bar.warp.sync",
                    "bar.sync",
                    "barrier.cluster.arrive",
                    "barrier.cluster.wait",
                    "barrier.cluster.arrive",
                ];
                assert_eq!(found[..FIRST.len()], FIRST, "{}", module.name());
                assert_eq!(found.last(), Some(&"barrier.cluster.wait"), "{}", module.name());
                let syncs = found.iter().filter(|&&word| word == "bar.sync").count();
                assert_eq!(syncs, 2, "{}", module.name());
                continue;
            }
            // Where the memory barriers are made, and among the lanes that have read a stage, before the last and the last itself.
            Rung::SplitK if module.kernel.boxes.is_some() => {
                &["bar.sync", "bar.warp.sync", "bar.warp.sync"]
            }
            Rung::SplitK if module.kernel.producers > 0 => SLICED,
            // Before the first slice, and before the last k of each.
            Rung::WarpTiled | Rung::SplitK => &["bar.sync"; 2],
            // Before the sums of groups are added up.
            Rung::Skinny => &["bar.sync"],
            // Where the memory barriers are made, among the lanes that have read a stage, before the last and the last itself, and
            // around the way of the sums through shared memory.
            Rung::WarpSpecialised => {
                &["bar.sync", "bar.warp.sync", "bar.warp.sync", "bar.sync", "bar.warp.sync"]
            }
            // As one of these for what is left to others, whose consumers meet, and for what is stored, for which they meet twice.
            Rung::StreamK => &[
                "bar.sync",
                "bar.warp.sync",
                "bar.warp.sync",
                "bar.sync",
                "bar.warp.sync",
                "bar.warp.sync",
                "bar.sync",
                "bar.sync",
                if module.kernel.depth_groups > 1 { "bar.sync" } else { "bar.warp.sync" },
            ],
            // Where the memory barriers are made, and among the lanes that have read a stage.
            Rung::Decoupled if module.ptx.arch != "sm_75" => &["bar.sync", "bar.warp.sync"],
            Rung::Decoupled => &["bar.sync"; 2],
            // Where the memory barriers are made, among the lanes that have read a stage, before the last and the last itself, where
            // sums are left to others and where they are collected, around the writes of each part of D that is only scaled, of a
            // part of any other, and before one that is not mapped is read back.
            Rung::Warpgroup => {
                const ALL: [&str; 24] = {
                    let mut barriers = ["bar.warp.sync"; 24];
                    barriers[0] = "bar.sync";
                    (barriers[3], barriers[4]) = ("bar.sync", "bar.sync");
                    barriers
                };
                &ALL[..8 + 2 * module.parts_of_d()]
            }
            // As with warp tiles, and around the way of the sums through shared memory.
            Rung::TensorCore => &["bar.sync", "bar.sync", "bar.sync", "bar.warp.sync"],
        };
        let mut expected = expected.to_vec();
        if module.kernel.cluster > 1 {
            // Where the memory barriers are made the cluster waits, and in the end. A barrier that the compiler copies to where only some
            // threads come would be another one.
            const OF_CLUSTER: [&str; 2] = ["barrier.cluster.arrive", "barrier.cluster.wait"];
            expected.splice(..1, OF_CLUSTER);
            expected.extend(OF_CLUSTER);
        }
        if module.kernel.rung == Rung::Warpgroup {
            // Which of the ways that sums take comes first in the text is the compiler's choice.
            let ends = [found.first(), found.last()];
            assert_eq!(ends, [expected.first(), expected.last()], "{}", module.name());
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{}", module.name());
    }
}

/// Catches products that are not fused with their sum (two roundings and half the speed), sums in the wrong precision,
/// and thread tiles that are not in registers: then a loop would load more than `TM + TN` operands for `TM * TN`
/// multiply-adds, or multiply-adds would be apart from the loads.
#[test]
fn the_main_loop_is_fused_and_loads_each_operand_once() {
    for module in modules() {
        let name = module.name();
        assert!(!module.words().any(|word| word == module.other_fma()), "{name}");
        // Tensor cores multiply otherwise, and the operands of skinny products come from two memories.
        let otherwise = [Rung::TensorCore, Rung::Skinny].contains(&module.kernel.rung)
            || module.multiplies_doubles();
        if otherwise || module.kernel.boxes.is_some() {
            continue;
        }
        let blocks = module.multiplying_blocks();
        assert!(!blocks.is_empty(), "{name}: no block multiplies");
        for block in blocks {
            let unfused = block.iter().find(|word| {
                let (opcode, rest) = word.split_once('.').unwrap_or_default();
                let float = rest.ends_with(".f32") || rest.ends_with(".f64");
                ["mul", "add", "sub", "div"].contains(&opcode) && float
            });
            assert_eq!(unfused, None, "{name}");

            let tile = module.kernel.tile;
            let multiply_adds = block.iter().filter(|&&word| word == module.fma()).count() as u32;
            let steps = multiply_adds / (tile.tm * tile.tn);
            assert_eq!(multiply_adds, steps * tile.tm * tile.tn, "{name}: whole outer products");
            let loads = block.iter().filter(|word| word.starts_with(module.operand_load()));
            let loaded: u32 = loads.map(|load| bytes(load)).sum();
            let operands = steps * (tile.tm + tile.tn);
            assert_eq!(loaded, operands * module.operand_bytes(), "{name}: {steps} steps");
        }
    }
}

/// Catches instructions of another shape or type than meant, fragments that are read more than once, and products that are apart
/// from the loads that they hide.
#[test]
fn tensor_cores_multiply_while_the_next_fragments_are_read() {
    let of_halves = |module: &&Module| {
        module.kernel.rung == Rung::TensorCore && module.kernel.dtype != Dtype::F64
    };
    for module in modules().iter().filter(of_halves) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let format = module.kernel.dtype.name();
        let mma = format!("mma.sync.aligned.m16n8k16.row.col.f32.{format}.{format}.f32");
        let products = tile.tm / 2 * (tile.tn / 2);
        let squares = tile.tm / 2 + tile.tn / 4;
        let mut steps = 0;
        for block in module.blocks() {
            let count = |start: &str| block.iter().filter(|word| word.starts_with(start)).count();
            let multiplied = count("mma.") as u32;
            assert_eq!(multiplied, count(&mma) as u32, "{name}");
            if multiplied > 0 {
                assert_eq!(multiplied % products, 0, "{name}: whole steps");
                steps += multiplied / products;
                let read = count("ldmatrix.sync.aligned.m8n8.x4") as u32;
                assert_eq!(read, multiplied / products * squares, "{name}");
            }
        }
        assert_eq!(steps, tile.bk / 16, "{name}: the steps of a slice");
        let transposed = module.words().any(|word| word.contains(".x4.trans."));
        let natural = module.words().any(|word| word.contains(".x4.shared."));
        let Layouts { a, b } = module.kernel.layouts;
        assert_eq!(natural, a == Layout::RowMajor || b == Layout::Transposed, "{name}");
        assert_eq!(transposed, a == Layout::Transposed || b == Layout::RowMajor, "{name}");
    }
}

/// The same in double precision, and branches between the products of a slice, before which tensor cores would run dry. There is a loop for
/// each of the two lengths of copies.
#[test]
fn tensor_cores_for_f64_multiply_without_branches() {
    for module in modules().iter().filter(|module| module.multiplies_doubles()) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let (shape, in_product) =
            if module.ptx.arch == "sm_80" { ("m8n8k4", 2) } else { ("m16n8k4", 1) };
        let mma = format!("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64");
        let steps = tile.bk / 4;
        let of_step = tile.tm + tile.tn / 2;
        let mut copies = Vec::new();
        for block in module.blocks() {
            let count =
                |start: &str| block.iter().filter(|word| word.starts_with(start)).count() as u32;
            let products = count("mma.");
            if products == 0 {
                continue;
            }
            assert_eq!(products, count(&mma), "{name}");
            assert_eq!(products, steps * (tile.tm / 2) * (tile.tn / 2) * in_product, "{name}");
            let read = |word: &&&str| word.starts_with("ld.shared") && bytes(word) == 8;
            assert_eq!(block.iter().filter(read).count() as u32, steps * of_step, "{name}");
            copies.push((count("cp.async.cg."), count("cp.async.ca.")));
        }
        copies.sort_unstable();
        let elements = (tile.bm + tile.bn) * tile.bk / tile.threads();
        assert_eq!(copies, [(0, elements), (elements / 2, 0)], "{name}");
        let read =
            module.accesses().filter(|word| word.starts_with("ld.shared") && bytes(word) == 8);
        assert_eq!(read.count() as u32, 2 * (steps + 1) * of_step, "{name}: and the first step");
    }
}

/// Catches instructions of another shape, type or layout than meant, products of a slice that are apart from one another, and sums
/// that the compiler has got hold of.
#[test]
fn warpgroups_multiply_a_slice_in_one_go() {
    for module in modules().iter().filter(|module| module.kernel.boxes.is_some()) {
        let (name, tile) = (module.name(), module.kernel.tile);
        let products_of_slice = tile.bk / 16 * module.pieces();
        let format = module.kernel.dtype.name();
        let product =
            format!("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{format}.{format}", tile.bn);
        let mut multiplied = 0;
        for block in module.blocks() {
            let count = |start: &str| block.iter().filter(|word| word.starts_with(start)).count();
            let products = count("wgmma.mma_async");
            assert_eq!(products, count(&product), "{name}");
            if products > 0 {
                assert_eq!(products as u32, products_of_slice, "{name}: the steps of a slice");
                assert_eq!((count("wgmma.fence"), count("wgmma.commit_group")), (1, 1), "{name}");
                multiplied += 1;
            }
        }
        assert_eq!(multiplied, 1, "{name}: one main loop");
        let Layouts { a, b } = module.kernel.layouts;
        let major = |transposed: bool| u32::from(transposed);
        let operands = format!(
            "p, 1, 1, {}, {};",
            major(a == Layout::Transposed),
            major(b == Layout::RowMajor)
        );
        let lines = module.lines().filter(|line| line.contains(&operands)).count() as u32;
        assert_eq!(lines, products_of_slice, "{name}: {operands}");
    }
}

/// Catches static tiles of the wrong size, which would limit the resident blocks or overlap, and a kernel whose shared
/// memory is neither declared nor asked for in the launch.
#[test]
fn shared_memory_is_as_large_as_the_tiles() {
    for module in modules() {
        let name = module.name();
        let mut arrays = Vec::new();
        let mut dynamic = 0;
        for line in module.lines().filter(|line| line.contains(".shared .align")) {
            let (_, size) = line.split_once('[').unwrap();
            match size.split_once(']').unwrap().0 {
                "" => dynamic += 1,
                size => arrays.push(size.parse::<u32>().unwrap()),
            }
        }
        let tile = module.kernel.tile;
        let expected = match module.kernel.rung {
            Rung::Tiled => {
                let bytes = |elements: u32| elements * module.operand_bytes();
                // Rows of a tile that is turned on the way are padded by the columns that a warp stores in one pass.
                let pass = 128 / module.operand_bytes();
                let padding = match module.kernel.layouts.b {
                    Layout::RowMajor => 0,
                    Layout::Transposed => (pass / tile.bn).max(1),
                };
                vec![bytes(tile.bm * tile.bk), bytes(tile.bk * (tile.bn + padding))]
            }
            _ => Vec::new(),
        };
        assert_eq!(arrays, expected, "{name}");
        assert_eq!(dynamic, u32::from(module.kernel.shared_bytes > 0), "{name}");
    }
}

/// Every reducer for every architecture: one entry, no local memory, and wide loads of which many are in flight, because they
/// come one after another with nothing between that waits for them.
#[test]
fn reducers_load_many_vectors_together() {
    const TOGETHER: usize = 16;
    for reducer in REDUCERS {
        for (arch, _) in ARCHS {
            let name = format!("{} for {arch}", reducer.name);
            let (_, text) = module_of(reducer.name, arch);
            let code = text.lines().flat_map(words);
            let accesses: Vec<_> = code
                .filter(|word| word.starts_with("ld.global") || word.starts_with("add.rn.f32"))
                .collect();
            let vectors = |run: &&[&str]| run[0].ends_with(".v4.b32");
            let longest = accesses.chunk_by(|a, b| a == b).filter(vectors).map(<[_]>::len).max();
            assert!(longest.is_some_and(|longest| longest >= TOGETHER), "{name}: {longest:?}");
            assert!(!text.contains(".local"), "{name}");
        }
    }
}

/// The repacker for every architecture: no local memory, and the wide loads of all its vectors before the first wide store, so that they
/// are in flight together.
#[test]
fn the_repacker_loads_all_its_vectors_together() {
    const VECTORS: usize = 4;
    for (arch, _) in ARCHS {
        let (_, text) = module_of(REPACKER.name, arch);
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let at = |access: &str| {
            let wide = format!("{access}.global.v4.b32");
            let places = code.iter().enumerate().filter(|(_, word)| **word == wide);
            places.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let (loads, stores) = (at("ld"), at("st"));
        // Each vector of a row lies in two.
        assert_eq!((loads.len(), stores.len()), (2 * VECTORS, VECTORS), "{arch}");
        assert!(loads.iter().max() < stores.iter().min(), "{arch}");
        assert!(!text.contains(".local"), "{arch}");
    }
}

/// Catches products of halves that wait for one another: in each half of a slice those of low halves are under way when the sums of high
/// ones are taken over.
#[test]
fn products_of_halves_take_sums_over_while_others_are_under_way() {
    for kernel in HALVES.iter().filter(|kernel| kernel.boxes.is_some()) {
        let (_, text) = module_of(kernel.name, "sm_90a");
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let wgmma = |word: &&&str| word.starts_with("wgmma.") && !word.starts_with("wgmma.fence");
        let of_warpgroups: Vec<_> = code.iter().filter(wgmma).copied().collect();
        let commit = "wgmma.commit_group.sync.aligned";
        let is_product = |word: &&str| word.starts_with("wgmma.mma_async");
        // Two products of high halves, four of low ones, and a wait for the first group, twice.
        let half_of_slice: Vec<_> = of_warpgroups[..9].to_vec();
        assert!(half_of_slice[..2].iter().all(is_product), "{}", kernel.name);
        assert_eq!(half_of_slice[2], commit, "{}", kernel.name);
        assert!(half_of_slice[3..7].iter().all(is_product), "{}", kernel.name);
        assert!(half_of_slice[8].starts_with("wgmma.wait_group"), "{}", kernel.name);
        assert_eq!(of_warpgroups[9..18], half_of_slice, "{}", kernel.name);
        let loads = code.iter().filter(|word| word.starts_with("cp.async.bulk.tensor.3d.shared"));
        let Layouts { a, b } = kernel.layouts;
        let boxes = |is_one: bool, width: u32| if is_one { 1 } else { width / 64 };
        let of_a = boxes(a == Layout::RowMajor, kernel.tile.bm);
        let of_b = boxes(b == Layout::Transposed, kernel.tile.bn);
        // Those of a slice, once for each way to come by its tile.
        let loads = loads.count() as u32;
        assert!(loads > 0 && loads.is_multiple_of(2 * (of_a + of_b)), "{}: {loads}", kernel.name);
        assert!(!text.contains(".local"), "{}", kernel.name);
    }
}

/// The products of rounded factors are those of [`warpgroups_multiply_a_slice_in_one_go`], and sums stay where they are.
#[test]
fn products_of_rounded_factors_are_one_for_each_step() {
    for kernel in ROUNDED {
        let (_, text) = module_of(kernel.name, "sm_90a");
        let code: Vec<_> = text.lines().flat_map(words).collect();
        let product = format!("wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16", kernel.tile.bn);
        let count = |start: &str| code.iter().filter(|word| word.starts_with(start)).count();
        assert_eq!(count("wgmma.mma_async") as u32, kernel.tile.bk / 16, "{}", kernel.name);
        assert_eq!(count(&product) as u32, kernel.tile.bk / 16, "{}", kernel.name);
        assert_eq!(count("wgmma.commit_group"), 1, "{}", kernel.name);
        assert!(!text.contains(".local"), "{}", kernel.name);
    }
}

/// Catches factors that are not rounded, or more than once for each fragment, instructions of another shape or type, and fragments that are read otherwise than
/// they lie.
#[test]
fn factors_of_tf32_are_rounded_once() {
    for kernel in TF32 {
        for arch in ["sm_80", "sm_90a"] {
            let (_, text) = module_of(kernel.name, arch);
            let name = format!("{} for {arch}", kernel.name);
            let code: Vec<_> = text.lines().flat_map(words).collect();
            let count =
                |start: &str| code.iter().filter(|word| word.starts_with(start)).count() as u32;
            let tile = kernel.tile;
            let steps = tile.bk / 8;
            let products = count("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
            assert_eq!(products, count("mma."), "{name}");
            assert_eq!(products, steps * (tile.tm / 2) * (tile.tn / 2), "{name}");
            // Two registers for each 8 rows of A and for each 8 columns of B.
            let fragments = 2 * tile.tm + tile.tn;
            assert_eq!(count("cvt.rna.tf32.f32"), steps * fragments, "{name}");
            // Of each step, and before the first: four registers at a time where k runs along rows.
            let Layouts { a, b } = kernel.layouts;
            let along =
                [(a == Layout::RowMajor, tile.tm / 2), (b == Layout::Transposed, tile.tn / 4)];
            let squares: u32 = along.into_iter().filter(|(along, _)| *along).map(|(_, n)| n).sum();
            let read = count("ldmatrix.sync.aligned.m8n8.x4.shared");
            assert_eq!(read, (steps + 1) * squares, "{name}");
            assert_eq!(count("ldmatrix"), read, "{name}: nothing is transposed");
            let by_elements = 4 * (steps + 1) * (tile.tm / 2 + tile.tn / 4 - squares);
            assert_eq!(count("ld.shared.b32"), by_elements, "{name}");
            assert!(!text.contains(".local"), "{name}");
        }
    }
}

/// Catches fragments that are read more than once, and a barrier of a slice behind its last products instead of before them, which hide it.
#[test]
fn products_of_halves_by_warps_hide_the_barrier() {
    for kernel in HALVES.iter().filter(|kernel| kernel.boxes.is_none()) {
        for (arch, resident_threads) in ARCHS.into_iter().filter(|(arch, _)| *arch != "sm_75") {
            let (ptx, text) = module_of(kernel.name, arch);
            let module = Module { kernel, ptx, text, resident_threads };
            let (name, tile) = (module.name(), kernel.tile);
            let is_product = |word: &str| word.starts_with("mma.sync.aligned.m16n8k16.row.col.f32");
            let is_read = |word: &str| word.starts_with("ldmatrix.sync.aligned.m8n8.x4");
            let code: Vec<_> = module.words().collect();
            let (rows, cols, steps) = (tile.tm / 2, tile.tn / 2, tile.bk / 16);
            // Of 16 rows, and of a slice.
            let of_rows = (3 * cols * steps) as usize;
            let products = code.iter().filter(|word| is_product(word)).count();
            assert_eq!(products, rows as usize * of_rows, "{name}");
            // Those of B and the first 16 rows of A before the loop as well.
            let of_b = 2 * tile.tn / 4 * steps;
            let reads = code.iter().filter(|word| is_read(word)).count() as u32;
            assert_eq!(reads, 2 * of_b + (rows + 1) * 2 * steps, "{name}");
            let first = code.iter().position(|word| is_product(word)).unwrap();
            let barrier = code[first..].iter().position(|word| word.starts_with("bar")).unwrap();
            let before =
                code[first..first + barrier].iter().filter(|word| is_product(word)).count();
            assert_eq!(before, products - of_rows, "{name}");
            assert!(!text.contains(".local"), "{name}");
        }
    }
}

/// Catches loads of the launch that splits which wait for one another, and arrays that lie in local memory.
#[test]
fn the_splitter_loads_all_its_vectors_together() {
    for (arch, _) in ARCHS {
        for (entry, halves) in [(SPLITTER, 2), (ROUNDER, 1)] {
            let (_, text) = module_of(entry.name, arch);
            let code: Vec<_> = text.lines().flat_map(words).collect();
            let count = |wanted: &str| code.iter().filter(|word| **word == wanted).count();
            // Four in each of the two passes along lines, of which the second stores as many of each half.
            assert_eq!(count("ld.global.v4.b32"), 2 * 4, "{}, {arch}", entry.name);
            let stores = ["st.global.b64", "st.global.v2.b32", "st.global.v4.b16"].map(count);
            assert_eq!(stores.into_iter().sum::<usize>(), halves * 4, "{}, {arch}", entry.name);
            assert!(!text.contains(".local"), "{}, {arch}", entry.name);
        }
    }
}
