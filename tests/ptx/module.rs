//! Modules of PTX, and what tests look for in them.

use cuda_std::entry::KernelEntry;
use regemm::kernels::kernels;
use regemm::{Dtype, KernelInfo, Layout, Layouts, PtxModule, Rung, ptx_modules};
use regemm_kernels::kernel::{Needs, Schedule};
use regemm_kernels::table::{
    CYCLE_COUNTER, HALVES, IF_MARKED, KERNELS, REDUCERS, REPACKER, ROUNDED, ROUNDER, SPLITTER,
    TF32, TRANSPOSER,
};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::LazyLock;

/// What the library is compiled for, and the threads that a multiprocessor of it can hold (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
pub const ARCHS: [(&str, u32); 3] = [("sm_75", 1024), ("sm_80", 2048), ("sm_90a", 2048)];

/// All modules and their PTX.
pub static TEXTS: LazyLock<Vec<(&PtxModule, String)>> = LazyLock::new(|| {
    let text = |module: &'static PtxModule| (module, module.text().unwrap());
    ptx_modules().iter().map(text).collect()
});

/// The one module of an entry for an architecture, and its PTX.
pub fn module_of(entry: &str, arch: &str) -> (&'static PtxModule, &'static str) {
    let found = TEXTS.iter().filter(|(module, _)| module.entry == entry && module.arch == arch);
    let found: Vec<_> = found.collect();
    let [(module, text)] = found[..] else {
        panic!("{} modules of {entry} for {arch}", found.len())
    };
    (module, text)
}

/// Any module that is embedded: of a kernel of whichever table, or of a launch before or behind one.
pub struct Embedded {
    pub entry: &'static KernelEntry,
    needs: Needs,
    pub ptx: &'static PtxModule,
    pub text: &'static str,
    pub resident_threads: u32,
}

impl Embedded {
    /// That of an entry for one target, on whose multiprocessors so many threads are resident.
    fn of(
        entry: &'static KernelEntry,
        needs: Needs,
        (arch, resident_threads): (&str, u32),
    ) -> Embedded {
        let (ptx, text) = module_of(entry.name, arch);
        Embedded { entry, needs, ptx, text, resident_threads }
    }

    /// For messages.
    pub fn name(&self) -> String {
        format!("{} for {}", self.ptx.entry, self.ptx.arch)
    }

    /// The text without comments.
    pub fn lines(&self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code))
    }

    /// The words of the text: opcodes, directives and operands without the punctuation between them.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.lines().flat_map(words)
    }

    /// Whether the target has what the entry needs; where it does not, the host refuses to launch it.
    pub fn can_run(&self) -> bool {
        let capability = match self.ptx.arch {
            "sm_75" => (7, 5),
            "sm_80" => (8, 0),
            "sm_90a" => (9, 0),
            arch => panic!("the compute capability of {arch}"),
        };
        self.needs.met_by(capability)
    }
}

/// Every module that is embedded, each of which exists once.
pub fn embedded() -> Vec<Embedded> {
    let tables = [KERNELS, HALVES, IF_MARKED, ROUNDED, TF32];
    let kernels = tables.into_iter().flatten().filter(|kernel| kernel.entry.name == kernel.name);
    let reducers = REDUCERS.iter().map(|reducer| &reducer.entry);
    let alone = [&REPACKER, &TRANSPOSER, &SPLITTER, &ROUNDER, &CYCLE_COUNTER];
    let entries = kernels
        .map(|kernel| (&kernel.entry, kernel.needs))
        .chain(reducers.chain(alone).map(|entry| (entry, Needs::Nothing)));
    let of_targets = |(entry, needs)| ARCHS.map(|target| Embedded::of(entry, needs, target));
    entries.flat_map(of_targets).collect()
}

/// A module that belongs to a kernel of the table.
pub struct Module {
    pub kernel: &'static KernelInfo,
    embedded: Embedded,
}

impl Deref for Module {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.embedded
    }
}

/// Parts of D that a warp has room for on their way.
const ROOMS: usize = 2;

/// A bulk load to the block itself, and one to blocks of its cluster.
const ONE: &str =
    "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
const TO_ALL: &str = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster";

impl Module {
    /// That of a kernel for one target, on whose multiprocessors so many threads are resident.
    pub fn of(kernel: &'static KernelInfo, target: (&str, u32)) -> Module {
        Module { kernel, embedded: Embedded::of(&kernel.entry, kernel.needs, target) }
    }

    /// The bulk loads.
    pub fn bulk_loads(&self) -> Vec<&'static str> {
        self.words()
            .filter(|word| {
                word.starts_with("cp.async.bulk.tensor") && word.contains(".global.tile.")
            })
            .collect()
    }

    /// Those of a slice: rows across k come in boxes of 64, and of B, or of A where
    /// they lie beside each other, each block of a cluster brings its part to all. In double precision there is a
    /// loop over the boxes of each factor; in f32 each is one box.
    pub fn expected_bulk_loads(&self) -> Vec<&'static str> {
        if self.multiplies_doubles() {
            return vec![ONE, TO_ALL];
        }
        if !self.multiplies_in_warpgroups() {
            return vec![ONE; 2];
        }
        let Layouts { a, b } = self.kernel.layouts;
        let of_a = if a == Layout::Transposed { self.kernel.tile.bm / 64 } else { 1 };
        let of_b = if b == Layout::RowMajor { self.kernel.tile.bn / 64 } else { 1 };
        let beside = self.kernel.cluster_cols;
        let above = match self.kernel.schedule {
            Schedule::ClusterK => 1,
            _ => self.kernel.cluster / beside,
        };
        let loads = |boxes: u32, blocks: u32| match blocks {
            1 => vec![ONE; boxes as usize],
            // Of boxes that are not as many for each block each one brings a part.
            _ if boxes.is_multiple_of(blocks) => vec![TO_ALL; (boxes / blocks) as usize],
            _ => vec![TO_ALL; boxes as usize],
        };
        let (of_a, of_b) = (loads(of_a, beside), loads(of_b, above));
        // What is the left factor of the transposed product is asked for first.
        if self.kernel.swapped { [of_b, of_a].concat() } else { [of_a, of_b].concat() }
    }

    /// Checks that the bulk loads are those of whole slices.
    pub fn check_bulk_loads(&self) {
        let (mut loads, expected) = (self.bulk_loads(), self.expected_bulk_loads());
        if self.multiplies_doubles() {
            // The compiler writes out some rounds of these loops.
            loads.dedup();
        }
        assert!(!loads.is_empty(), "{}", self.name());
        // Those of C come behind them, each to one block.
        let of_c = [ONE, TO_ALL][usize::from(self.kernel.cluster > 1)];
        if self.kernel.boxes.is_some_and(|boxes| boxes.rests) {
            // Of each factor whole boxes, or what lies inside of it: branches, and loops of which the compiler writes
            // out some rounds.
            let kinds = |loads: &[&'static str]| loads.iter().copied().collect::<BTreeSet<_>>();
            let mut expected = kinds(&expected);
            expected.extend(self.brings_c().then_some(of_c));
            assert!(loads.len() >= 2, "{}", self.name());
            assert_eq!(kinds(&loads), expected, "{}", self.name());
            return;
        }
        let mut left = &loads[..];
        while !left.is_empty() {
            let is_slice = left.starts_with(&expected);
            assert!(is_slice || self.brings_c() && left[0] == of_c, "{}: {loads:?}", self.name());
            left = &left[if is_slice { expected.len() } else { 1 }..];
        }
    }

    /// Whether warpgroups end in the epilogue.
    pub fn finishes_in_bulk(&self) -> bool {
        let finishes =
            self.kernel.rung == Rung::Warpgroup || self.kernel.schedule == Schedule::ClusterK;
        self.kernel.boxes.is_some() && finishes
    }

    /// Whether warpgroups multiply what bulk copies bring.
    pub fn multiplies_in_warpgroups(&self) -> bool {
        self.kernel.needs == Needs::WarpgroupProducts
    }

    /// Whether tensor cores multiply in double precision.
    pub fn multiplies_doubles(&self) -> bool {
        matches!(self.kernel.needs, Needs::DoubleTensorCores | Needs::DoubleTensorCoresInClusters)
    }

    /// Every load and store but those of parameters.
    pub fn accesses(&self) -> impl Iterator<Item = &'static str> {
        self.words()
            .filter(|word| word.starts_with("ld.") || word.starts_with("st."))
            .filter(|word| !word.starts_with("ld.param."))
    }

    /// Whether slices come to shared memory by `cp.async`, which exists from sm_80 on (section 9.7.9.25.3.1).
    pub fn copies_asynchronously(&self) -> bool {
        let in_stages = self.kernel.rung >= Rung::Pipelined && self.kernel.tile.stages > 0;
        in_stages && self.ptx.arch != "sm_75"
    }

    /// The basic blocks: runs of words between labels and branches.
    pub fn blocks(&self) -> Vec<Vec<&'static str>> {
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
    pub fn multiplying_blocks(&self) -> Vec<Vec<&'static str>> {
        let mut blocks = self.blocks();
        blocks.retain(|block| {
            let loads = block.iter().filter(|word| word.starts_with(self.operand_load())).count();
            loads >= 2 && block.contains(&self.fma())
        });
        blocks
    }

    /// The multiply-add of the kernel's sums.
    pub fn fma(&self) -> &'static str {
        match self.kernel.dtype {
            Dtype::F64 => "fma.rn.f64",
            _ => "fma.rn.f32",
        }
    }

    /// The multiply-add of the other precision.
    pub fn other_fma(&self) -> &'static str {
        match self.kernel.dtype {
            Dtype::F64 => "fma.rn.f32",
            _ => "fma.rn.f64",
        }
    }

    /// How the main loop gets its operands.
    pub fn operand_load(&self) -> &'static str {
        match self.kernel.rung {
            Rung::Naive => "ld.global.",
            _ => "ld.shared.",
        }
    }

    /// Pieces of 64 rows that each of two warpgroups has of a tile, or of its own where they take turns, or one alone.
    pub fn pieces(&self) -> u32 {
        let rows = self.kernel.walked(self.kernel.tile.bm, self.kernel.tile.bn).0;
        (self.kernel.turns * rows / 2 / 64).max(1)
    }

    /// Whether it clears what of its first slices lies outside of A and B: a kernel of warpgroups that stay.
    pub fn clears_outside(&self) -> bool {
        let rests = self.kernel.boxes.is_some_and(|boxes| boxes.rests);
        self.kernel.rung == Rung::Warpgroup && rests
    }

    /// Parts of 128 bytes a row in which a warp's rows of sums leave, the last of a piece with what is left.
    pub fn parts_of_d(&self) -> usize {
        let row = self.kernel.width() as usize * self.kernel.target.bytes();
        self.pieces() as usize * row.div_ceil(128)
    }

    /// Whether C comes in bulk too.
    pub fn brings_c(&self) -> bool {
        self.kernel.boxes.is_some_and(|boxes| boxes.c.is_some())
    }

    /// Stages that C of a tile takes: as few as all have equally many parts in.
    pub fn stages_of_c(&self) -> usize {
        let (rows, cols) = self.kernel.walked(self.kernel.tile.bm, self.kernel.tile.bn);
        let stage = (rows + cols) * self.kernel.tile.bk * self.kernel.dtype.bytes() as u32;
        let (parts, most) = (self.parts_of_d(), (stage / (rows * 128)) as usize);
        let stages = (1..=parts).find(|&stages| parts % stages == 0 && parts / stages <= most);
        stages.unwrap()
    }

    /// Where in the code parts leave for a mapped D that are all written out. Ways of sums are: of such as are only
    /// scaled, with a bias, and with that and GELU, of which there are two forms in half precision and in f32 one, for
    /// all sums or, of many, for a half of them; and one with C, where that is brought. In half precision, where tiles
    /// follow each other two parts leave at once, and the others in three places: while the next tile is multiplied, or
    /// there is nothing to multiply, and in the end; where tiles fit there always is something.
    pub fn written_out(&self) -> usize {
        let parts = self.parts_of_d();
        let ways = 2 + usize::from(self.brings_c());
        if self.kernel.target == Dtype::F32 {
            const OF_GELU: usize = 4;
            return if self.stores_directly() { 0 } else { ways * parts + parts.min(OF_GELU) };
        }
        if self.stores_directly() {
            return 0;
        }
        let ways = ways + 2;
        // Where others multiply meanwhile nothing leaves later either.
        if self.has_many_sums() || self.kernel.turns > 1 {
            return ways * parts;
        }
        let later = if self.kernel.fits { 2 } else { 3 };
        ways * parts.min(ROOMS) + later * parts.saturating_sub(ROOMS)
    }

    /// Where in the code what is left of a part leaves by pieces, of tiles that fit: of the third, of the fourth, and
    /// of any that is not written out; where [none leaves later](Self::leaves_at_once), of any at all. Where A and B
    /// are swapped what is left of a part are whole boxes.
    pub fn left_in_pieces(&self) -> usize {
        if self.stores_directly() || !self.kernel.fits || self.kernel.swapped {
            0
        } else if self.leaves_at_once() {
            self.written_out() + 1
        } else {
            3
        }
    }

    /// Whether no part of D leaves later than it is written out: there is room for all, or there are no registers for
    /// others.
    pub fn leaves_at_once(&self) -> bool {
        self.has_many_sums() || self.parts_of_d() <= ROOMS
    }

    /// Whether of three parts of a piece the last is a half.
    pub fn has_half_parts(&self) -> bool {
        self.has_many_sums() && self.kernel.width() as usize * self.kernel.target.bytes() == 320
    }

    /// Whether a thread has more than 128 sums, and so no registers for parts that leave later: all leave where they
    /// are written out.
    pub fn has_many_sums(&self) -> bool {
        self.kernel.rung == Rung::Warpgroup && self.pieces() * self.kernel.width() / 2 > 128
    }

    /// Whether lanes store what they have summed themselves, of f32 where tiles fit and of any tile with few rows of D
    /// as its columns: all others leave in parts.
    pub fn stores_directly(&self) -> bool {
        let kernel = self.kernel;
        kernel.rung == Rung::Warpgroup
            && (kernel.fits && kernel.target == Dtype::F32 || kernel.swapped && !kernel.fits)
    }

    /// Whether pairs of sums of f32 go through shared memory as they are: matrices of other elements do so together.
    pub fn sends_pairs_of_f32(&self) -> bool {
        self.kernel.rung == Rung::Warpgroup
            && self.kernel.target == Dtype::F32
            && !self.stores_directly()
    }

    /// Bytes of a loaded operand: an element, or where it comes from shared memory one as wide as the sums.
    pub fn operand_bytes(&self) -> u32 {
        match (self.kernel.dtype, self.kernel.rung) {
            (Dtype::F64, _) => 8,
            (Dtype::F16 | Dtype::Bf16, Rung::Naive) => 2,
            _ => 4,
        }
    }
}

pub fn words(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split(|c: char| c.is_whitespace() || ";{},()".contains(c)).filter(|word| !word.is_empty())
}

/// Bytes that a load or store moves, from the types at its end: `.v4.b32`, `.b64`.
pub fn bytes(access: &str) -> u32 {
    let mut parts = access.rsplit('.');
    let bits: u32 = parts.next().unwrap()[1..].parse().unwrap();
    let count = parts.next().unwrap().strip_prefix('v').map_or(1, |count| count.parse().unwrap());
    bits / 8 * count
}

/// The module of every kernel of the table for every architecture that can run it.
pub fn modules() -> Vec<Module> {
    let mut modules = all_modules();
    modules.retain(|module| module.can_run());
    modules
}

/// Those of them that fulfil a condition. There are some: else a test of each would test nothing.
pub fn modules_that(condition: impl Fn(&Module) -> bool) -> Vec<Module> {
    let mut modules = modules();
    modules.retain(condition);
    assert!(!modules.is_empty());
    modules
}

/// The kernels of the table that have an entry of their own, and do not share that of another.
pub fn kernels_with_entries() -> impl Iterator<Item = &'static KernelInfo> {
    kernels().iter().filter(|kernel| kernel.entry.name == kernel.name)
}

/// The module of every kernel of the table for every architecture; each exists once.
pub fn all_modules() -> Vec<Module> {
    let of_targets = |kernel| ARCHS.map(|target| Module::of(kernel, target));
    kernels_with_entries().flat_map(of_targets).collect()
}
