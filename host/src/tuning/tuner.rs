//! The tables of one device in memory.

use super::cache::Cache;
use super::choice;
use super::class::{Shape, ShapeClass};
use super::key::Key;
use super::measure::measure_once;
use super::memo::{Memo, Question};
use super::model::Model;
use super::policy::Tuning;
use super::shipped::{self, ShippedTables};
use super::table::{Measured, Source, Table};
use crate::device::Device;
use crate::device::info::{DeviceInfo, DeviceKind};
use crate::device::stream::Stream;
use crate::error::Result;
use crate::kernels::{NotTuned, Problem, Selection, Types, choose_untuned};
use arc_swap::ArcSwap;
use regemm_kernels::kernel::Rung;
use regemm_kernels::layout::Layouts;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Samples of each kernel at a shape's first use.
const FIRST_USE_SAMPLES: NonZeroUsize = NonZeroUsize::new(5).unwrap();

/// Multiply-adds of the largest product that is measured at first use: larger ones would take minutes with the slowest
/// kernels, and are served by the prediction from smaller ones.
const FIRST_USE_WORK: u128 = 1 << 39;

/// What one device knows about the speed of kernels.
#[derive(Debug)]
pub(crate) struct Tuner {
    policy: AtomicU8,
    /// None where the user has no place for one.
    cache: Option<Cache>,
    /// By element types, in the order of [`Types::ALL`]; loaded when they are first needed.
    models: [OnceLock<ArcSwap<Model>>; Types::ALL.len()],
    /// What was measured at first use, and whether that worked. Held while measuring, so that no shape is measured
    /// twice.
    first_uses: Mutex<FirstUses>,
    memo: Memo,
}

/// Outcomes of first uses and the tables that they made.
#[derive(Debug, Default)]
struct FirstUses {
    worked: HashMap<(Types, Layouts, ShapeClass), bool>,
    tables: HashMap<(Types, Layouts), Table>,
}

impl FirstUses {
    /// The tables of some element types.
    fn of(&self, types: Types) -> impl Iterator<Item = &Table> {
        self.tables.values().filter(move |table| table.types() == types)
    }
}

impl Tuner {
    /// Chooses as the environment says, with the user's cache.
    pub fn new() -> Tuner {
        Tuner::with(Tuning::from_environment(), Cache::of_user().ok())
    }

    fn with(policy: Tuning, cache: Option<Cache>) -> Tuner {
        Tuner {
            policy: AtomicU8::new(policy as u8),
            cache,
            models: Default::default(),
            first_uses: Mutex::default(),
            memo: Memo::default(),
        }
    }

    pub fn set_policy(&self, policy: Tuning) {
        self.policy.store(policy as u8, Ordering::Relaxed);
        self.memo.forget();
    }

    pub fn policy(&self) -> Tuning {
        let stored = self.policy.load(Ordering::Relaxed);
        Tuning::ALL.into_iter().find(|tuning| *tuning as u8 == stored).unwrap_or_default()
    }

    /// The kernel for a problem, of a rung if one is given, for a product on a stream or on none. Measures if the
    /// policy says so.
    ///
    /// # Errors
    /// The device can run no kernel; [`Error::Capturing`](crate::Error::Capturing) where it would measure while the
    /// stream is captured.
    pub fn select(
        &self,
        device: &Device,
        problem: &Problem,
        shape: Shape,
        rung: Option<Rung>,
        stream: Option<&Stream>,
    ) -> Result<Selection> {
        self.memo.get_or(Question { problem: *problem, shape, rung }, || {
            // Only a free choice is worth measuring for. The work that measurements do between samples is none, so they
            // do not come back here.
            let free = rung.is_none() && problem.batch == 1;
            let measures = self.policy() == Tuning::FirstUse && free && !device.is_sim();
            let failed = measures && !self.measure_if_new(device, problem, shape, stream)?;
            self.choose(device.info(), problem, shape, rung, failed)
        })
    }

    /// The choice with what is known already.
    pub fn choose(
        &self,
        device: &DeviceInfo,
        problem: &Problem,
        shape: Shape,
        rung: Option<Rung>,
        failed: bool,
    ) -> Result<Selection> {
        let not_tuned = match (self.policy(), device.kind) {
            (Tuning::Rule, _) => NotTuned::NotAsked,
            (Tuning::Table, DeviceKind::Sim) => NotTuned::Simulator,
            (Tuning::FirstUse, DeviceKind::Sim) => NotTuned::NotMeasurable,
            _ => {
                let models = self.models(device, problem.types());
                match choice::choose(models, problem, shape, device, rung) {
                    Ok(selection) => return Ok(selection),
                    Err(_) if failed => NotTuned::Failed,
                    Err(not_tuned) => not_tuned,
                }
            }
        };
        choose_untuned(problem, device, rung, not_tuned)
    }

    /// The models that a choice for element types [asks](choice::choose), in this order. Each is loaded when its turn
    /// comes.
    pub fn models(&self, device: &DeviceInfo, types: Types) -> impl Iterator<Item = Arc<Model>> {
        let known = types.and_alike().filter_map(|types| self.model(device, types));
        known.map(ArcSwap::load_full)
    }

    /// The times for element types: those shipped, and on top those of the cache. None of types that there are no
    /// kernels for.
    fn model(&self, device: &DeviceInfo, types: Types) -> Option<&ArcSwap<Model>> {
        let index = Types::ALL.into_iter().position(|known| known == types)?;
        let load = || ArcSwap::from_pointee(self.load(device, types, []));
        Some(self.models[index].get_or_init(load))
    }

    /// Measures a shape whose class has no times yet: of row-major factors, and of the problem's layouts, whose times
    /// count beside those. Whether there are times now.
    fn measure_if_new(
        &self,
        device: &Device,
        problem: &Problem,
        shape: Shape,
        stream: Option<&Stream>,
    ) -> Result<bool> {
        let (types, layouts) = (problem.types(), problem.layouts);
        let row_major = shape.of_row_major(types.factors);
        let worked = self.measure_in_if_new(Layouts::NN, device, types, row_major, stream)?;
        if !worked || layouts == Layouts::NN {
            return Ok(worked);
        }
        self.measure_in_if_new(layouts, device, types, shape, stream)
    }

    fn measure_in_if_new(
        &self,
        layouts: Layouts,
        device: &Device,
        types: Types,
        shape: Shape,
        stream: Option<&Stream>,
    ) -> Result<bool> {
        let (class, Shape { m, n, k, .. }) = (shape.class(), shape);
        let Some(model) = self.model(device.info(), types) else { return Ok(true) };
        let work = u128::from(m) * u128::from(n) * u128::from(k);
        if work == 0 || work > FIRST_USE_WORK || model.load().has(layouts, class) {
            return Ok(true);
        }
        let mut first_uses = self.first_uses.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have measured it meanwhile.
        if let Some(worked) = first_uses.worked.get(&(types, layouts, class)) {
            return Ok(*worked);
        }
        if let Some(stream) = stream {
            stream.refuse_capture(
                "measuring kernels at a shape's first use",
                "enqueue the same product once before the capture begins, or choose another `Tuning`",
            )?;
        }
        if self.found_in_cache(&first_uses, device.info(), types, model, (layouts, class)) {
            return Ok(true);
        }
        let measured = device
            .synchronize()
            .and_then(|()| measure_once(device, (types, layouts), shape, FIRST_USE_SAMPLES));
        first_uses.worked.insert((types, layouts, class), measured.is_ok());
        match measured {
            Ok(table) => {
                self.save(device.info(), &table);
                let of_kind = first_uses.tables.entry((types, layouts));
                of_kind.or_insert_with(|| Table::in_layouts(types, layouts)).merge(&table);
                model.store(Arc::new(self.load(device.info(), types, first_uses.of(types))));
                self.memo.forget();
                Ok(true)
            }
            Err(error) => {
                log::warn!("{shape} {types} {layouts} was not measured at first use: {error}");
                Ok(false)
            }
        }
    }

    /// Whether another process has measured it since the model was loaded: then all of the cache is in the model now.
    fn found_in_cache(
        &self,
        first_uses: &FirstUses,
        device: &DeviceInfo,
        types: Types,
        model: &ArcSwap<Model>,
        (layouts, class): (Layouts, ShapeClass),
    ) -> bool {
        if self.cache.is_none() {
            return false;
        }
        let loaded = self.load(device, types, first_uses.of(types));
        let found = loaded.has(layouts, class);
        if found {
            model.store(Arc::new(loaded));
            self.memo.forget();
        }
        found
    }

    /// Puts times into the cache; where that fails they serve this process alone.
    fn save(&self, device: &DeviceInfo, table: &Table) {
        let Some(cache) = &self.cache else { return };
        if let Err(error) = cache.merge(&Key::of(device, table.types(), table.layouts()), table) {
            log::warn!("tuning cache: {error}");
        }
    }

    /// What is shipped, what the cache holds, and what was measured in this process.
    fn load<'t>(
        &self,
        device: &DeviceInfo,
        types: Types,
        measured: impl IntoIterator<Item = &'t Table>,
    ) -> Model {
        let shipped = shipped::for_device(device, types);
        // The key takes the PTX of all kernels of the types, which a first product need not wait for where no table can
        // have it.
        let cache = self.cache.as_ref().filter(|cache| cache.file(&device.name).exists());
        let cached = cache.map_or_else(Vec::new, |cache| {
            cache.load_all(device, types).unwrap_or_else(|error| {
                log::warn!("tuning cache: {error}");
                Vec::new()
            })
        });
        fn own(table: &Table, multiprocessors: u32) -> Measured<'_> {
            Measured { source: Source::Measured, multiprocessors, table }
        }
        let here = device.multiprocessors;
        let mut tables = Vec::new();
        tables.extend(shipped.iter().flat_map(ShippedTables::measured));
        tables.extend(cached.iter().map(|table| own(table, here)));
        tables.extend(measured.into_iter().map(|table| own(table, here)));
        Model::new(device, &tables)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::entry;
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::Why;
    use regemm_kernels::element::Dtype;
    use std::fs;

    /// A GPU of an architecture for which nothing is shipped.
    fn gpu() -> DeviceInfo {
        DeviceInfo {
            name: "NVIDIA Imaginary 1000".into(),
            compute_capability: Some((10, 0)),
            ..h200()
        }
    }

    fn problem(n: u32) -> (Problem, Shape) {
        let problem = Problem::new(Dtype::F32, n, n, n);
        (problem, Shape::packed(Dtype::F32, n, n, n))
    }

    fn chosen(tuner: &Tuner, device: &DeviceInfo, n: u32) -> Selection {
        let (problem, shape) = problem(n);
        tuner.choose(device, &problem, shape, None, false).unwrap()
    }

    fn not_tuned(selection: Selection) -> NotTuned {
        let Why::Rule { not_tuned, .. } = selection.why else { panic!("{selection}") };
        not_tuned
    }

    /// A cache in which the slowest kernel is the fastest at 4096.
    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let mut table = Table::new(Dtype::F32);
        let times = [("naive_f32", 1.0), ("pipelined_f32", 2.0)];
        table.insert(entry((4096, 4096, 4096), &times));
        cache.merge(&Key::of(&gpu(), Dtype::F32, Layouts::NN), &table).unwrap();
        (folder, cache)
    }

    #[test]
    fn the_cache_decides_unless_the_rule_is_asked_for() {
        let (_folder, cache) = cache();
        let tuner = Tuner::with(Tuning::Table, Some(cache));
        let selection = chosen(&tuner, &gpu(), 4096);
        assert_eq!(selection.kernel.name, "naive_f32", "{selection}");
        assert_eq!(not_tuned(chosen(&tuner, &gpu(), 64)), NotTuned::NothingNear);
        tuner.set_policy(Tuning::Rule);
        let selection = chosen(&tuner, &gpu(), 4096);
        assert_eq!(selection.kernel.name, "decoupled_f32");
        assert_eq!(not_tuned(selection), NotTuned::NotAsked);
    }

    /// On the simulator, which cannot measure: so what is known is from the cache.
    #[test]
    fn what_another_process_has_measured_meanwhile_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let device = Device::sim();
        let (problem, shape) = problem(4096);
        let measured =
            |tuner: &Tuner| tuner.measure_if_new(&device, &problem, shape, None).unwrap();
        let [alone, tuner] = [0; 2].map(|_| Tuner::with(Tuning::FirstUse, Some(cache.clone())));
        assert!(!measured(&alone));
        assert_eq!(tuner.models(device.info(), problem.types()).count(), 1, "loaded, and empty");
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((4096, 4096, 4096), &[("tiled16_f32", 1.0)]));
        cache.merge(&Key::of(device.info(), Dtype::F32, Layouts::NN), &table).unwrap();
        assert!(measured(&tuner));
        assert!(tuner.first_uses.lock().unwrap().tables.is_empty());
    }

    #[test]
    fn times_of_other_drivers_gpus_and_kernels_do_not_count() {
        let (_folder, cache) = cache();
        let others = [
            DeviceInfo { name: "NVIDIA Imaginary 2000".into(), ..gpu() },
            DeviceInfo { driver_version: Some((13, 7)), ..gpu() },
            // A part of the GPU.
            DeviceInfo { multiprocessors: gpu().multiprocessors / 2, ..gpu() },
            // Runs the PTX for another architecture: other kernels.
            DeviceInfo { compute_capability: Some((7, 5)), ..gpu() },
        ];
        for other in others {
            let tuner = Tuner::with(Tuning::Table, Some(cache.clone()));
            assert_eq!(not_tuned(chosen(&tuner, &other, 4096)), NotTuned::NoTable, "{other:?}");
        }
    }

    #[test]
    fn a_damaged_cache_or_none_leaves_the_rule() {
        let (_folder, cache) = cache();
        let file = cache.file(&gpu().name);
        let good = fs::read_to_string(&file).unwrap();
        let damaged = ["", "{", &good[..good.len() / 2], "[1, 2]", &good.replace("1,", "9,")];
        for text in damaged {
            fs::write(&file, text).unwrap();
            let tuner = Tuner::with(Tuning::Table, Some(cache.clone()));
            assert_eq!(not_tuned(chosen(&tuner, &gpu(), 4096)), NotTuned::NoTable, "{text}");
        }
        fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
        let tuner = Tuner::with(Tuning::Table, Some(cache.clone()));
        assert_eq!(not_tuned(chosen(&tuner, &gpu(), 4096)), NotTuned::NoTable);
        // A folder in its place cannot be read.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let tuner = Tuner::with(Tuning::Table, Some(cache));
        assert_eq!(not_tuned(chosen(&tuner, &gpu(), 4096)), NotTuned::NoTable);
        let tuner = Tuner::with(Tuning::Table, None);
        assert_eq!(not_tuned(chosen(&tuner, &gpu(), 4096)), NotTuned::NoTable);
    }

    #[test]
    fn the_simulator_stays_with_the_rule_and_says_so() {
        let device = Device::sim();
        let (problem, shape) = problem(64);
        let policies = [
            (Tuning::Table, NotTuned::Simulator, "as always on the simulator"),
            (Tuning::FirstUse, NotTuned::NotMeasurable, "the simulator gives no times"),
        ];
        for (policy, reason, words) in policies {
            device.set_tuning(policy);
            let tuner = device.tuner();
            let selection = tuner.select(&device, &problem, shape, None, None).unwrap();
            assert_eq!(not_tuned(selection), reason);
            assert!(selection.to_string().contains(words), "{selection}");
            let tables = &tuner.first_uses.lock().unwrap().tables;
            assert!(tables.is_empty(), "nothing was measured");
        }
        device.set_tuning(Tuning::Rule);
        let selection = device.tuner().select(&device, &problem, shape, None, None).unwrap();
        assert_eq!(not_tuned(selection), NotTuned::NotAsked);
    }

    #[test]
    fn handles_of_a_device_share_its_policy() {
        let device = Device::sim();
        let clone = device.clone();
        clone.set_tuning(Tuning::FirstUse);
        assert_eq!(device.tuning(), Tuning::FirstUse);
        assert_ne!(Device::sim().tuning(), Tuning::FirstUse, "another simulator is another device");
    }
}
