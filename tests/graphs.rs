//! Products captured in a CUDA graph, on the first GPU of the machine: launched again and again with other matrices,
//! they give the bits of direct calls.
//!
//! Without a GPU there is nothing to capture; the last line says so, and with `REGEMM_REQUIRE_GPU=1` that is a failure.
//! What is refused during a capture is tested in `cuda_backend`, without a GPU.

#[allow(dead_code, reason = "it has nothing for the simulator")]
#[path = "gpu/mod.rs"]
mod gpu;
#[path = "gpu/others.rs"]
mod others;

use libloading::Library;
use libtest_mimic::{Arguments, Failed, Trial};
use others::{NO_HOPPER, Others, expect};
use regemm::ndarray::{Array2, array};
use regemm::verify::{Distribution, random_matrix, rng};
use regemm::{
    Accumulator, Computed, Device, Dtype, Element, Gemm, KernelChoice, Matrix, Precision,
    PrecisionRecord, Report, Stream, Workspace, WorkspaceSize, bf16, kernels,
};
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::ptr;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    let mut arguments = Arguments::from_args();
    // In the strictest mode a capture is spoilt by what other threads do.
    arguments.test_threads = Some(1);
    let gpu = with_graphs();
    let mut trials = Vec::new();
    if let Ok(Ok(device)) = &gpu {
        for (name, mode) in MODES {
            let of_two = device.clone();
            trials.push(Trial::test(format!("cuda:0::two_streams_{name}"), move || {
                two_streams_of_a_graph_are_in_order(&of_two, mode)
                    .map_err(|error| Failed::from(error.to_string()))
            }));
            let device = device.clone();
            trials.push(Trial::test(format!("cuda:0::{name}"), move || {
                graphs_give_the_bits_of_calls(&device, mode)
                    .map_err(|error| Failed::from(error.to_string()))
            }));
        }
    }
    others::add_trials(
        &mut trials,
        &[
            ("products_are_of_kernels_that_can_run", products_are_of_kernels_that_can_run),
            ("drivers_without_graphs_are_none", drivers_without_graphs_are_none),
        ],
    );
    let failure = gpu.as_ref().err().cloned();
    trials.push(Trial::test("gpu_is_there_if_required", move || match failure {
        Some(why) => Err(why.into()),
        None => Ok(()),
    }));

    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        match gpu.and_then(|gpu| gpu) {
            Ok(device) => {
                println!("graphs were captured on {} (cuda:0)", device.info().name);
                left_out(&device).iter().for_each(|what| println!("without {what}"));
            }
            Err(why) => println!("graphs were captured on NO GPU, because: {why}"),
        }
    }
    conclusion.exit();
}

/// The CUDA version with which the last of the functions came that are called here.
const GRAPHS_SINCE: (u32, u32) = (11, 4);

/// The first GPU, if its driver has all functions for graphs; or why there is none.
///
/// # Errors
/// What must not be passed over: see [`gpu::first`].
fn with_graphs() -> gpu::Found<Device> {
    let device = match gpu::first()? {
        Ok(device) => device,
        Err(why) => return Ok(Err(why)),
    };
    match device.info().driver_version {
        Some(found @ (major, minor)) if found < GRAPHS_SINCE => {
            let (since_major, since_minor) = GRAPHS_SINCE;
            gpu::none(format!(
                "the driver supports CUDA {major}.{minor}, and graphs are captured here with functions of \
                 {since_major}.{since_minor}"
            ))
        }
        _ => Ok(Ok(device)),
    }
}

/// `CUstreamCaptureMode`
const MODES: [(&str, c_int); 3] = [("global", 0), ("thread_local", 1), ("relaxed", 2)];

/// The driver's functions for graphs (`cuda.h`).
struct Graphs {
    driver: Library,
}

/// A graph that can be launched.
struct Graph<'g> {
    graphs: &'g Graphs,
    executable: *mut c_void,
}

type Handle = *mut c_void;

impl Graphs {
    fn load() -> Outcome<Graphs> {
        // SAFETY: the driver is loaded already.
        Ok(Graphs { driver: unsafe { Library::new(cuda_driver::library::LIBRARY)? } })
    }

    /// Captures what a function puts on a stream.
    fn capture(
        &self,
        stream: &Stream,
        mode: c_int,
        enqueue: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<Graph<'_>> {
        type Begin = unsafe extern "C" fn(Handle, c_int) -> c_int;
        type End = unsafe extern "C" fn(Handle, *mut Handle) -> c_int;
        type Instantiate = unsafe extern "C" fn(*mut Handle, Handle, u64) -> c_int;
        type Destroy = unsafe extern "C" fn(Handle) -> c_int;
        const NO_FLAGS: u64 = 0;
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the signatures are those of `cuda.h`, the stream lives, and the pointers are to locals.
        unsafe {
            let begin = self.driver.get::<Begin>("cuStreamBeginCapture_v2")?;
            let end = self.driver.get::<End>("cuStreamEndCapture")?;
            let instantiate = self.driver.get::<Instantiate>("cuGraphInstantiateWithFlags")?;
            let destroy = self.driver.get::<Destroy>("cuGraphDestroy")?;
            on(stream, "cuStreamBeginCapture", |raw| begin(raw, mode))?;
            let enqueued = enqueue();
            let ended = on(stream, "cuStreamEndCapture", |raw| end(raw, &mut graph));
            enqueued?;
            ended?;
            on(stream, "cuGraphInstantiate", |_| instantiate(&mut executable, graph, NO_FLAGS))?;
            on(stream, "cuGraphDestroy", |_| destroy(graph))?;
        }
        Ok(Graph { graphs: self, executable })
    }
}

impl Graph<'_> {
    /// Launches it, and waits for its end.
    fn launch(&self, stream: &Stream) -> Outcome<()> {
        type Launch = unsafe extern "C" fn(Handle, Handle) -> c_int;
        // SAFETY: the signature is that of `cuda.h`; graph and stream live, and so does the memory in the graph.
        unsafe {
            let launch = self.graphs.driver.get::<Launch>("cuGraphLaunch")?;
            on(stream, "cuGraphLaunch", |raw| launch(self.executable, raw))?;
        }
        Ok(stream.synchronize()?)
    }

    fn destroy(self, stream: &Stream) -> Outcome<()> {
        type Destroy = unsafe extern "C" fn(Handle) -> c_int;
        // SAFETY: the signature is that of `cuda.h`; the graph lives and is not used again.
        unsafe {
            let destroy = self.graphs.driver.get::<Destroy>("cuGraphExecDestroy")?;
            on(stream, "cuGraphExecDestroy", |_| destroy(self.executable))
        }
    }
}

/// Calls the driver with a stream's handle, in its context.
fn on(stream: &Stream, what: &str, call: impl FnOnce(Handle) -> c_int) -> Outcome<()> {
    match stream.with_cuda_handle(call)?.ok_or("the stream is no GPU's")? {
        0 => Ok(()),
        code => Err(format!("{what}: error {code}").into()),
    }
}

/// A product with its matrices, which knows neither the graph nor the direct call it is part of.
trait Product {
    fn name(&self) -> String;
    /// Puts it on a stream; D is that of the graph, or that of direct calls.
    fn enqueue(&mut self, stream: &Stream, is_direct: bool) -> regemm::Result<Report>;
    /// Other factors, and results that were never computed.
    fn change(&mut self, seed: u64) -> regemm::Result<()>;
    /// Whether the graph's result has the bits of the direct call's, and was computed at all.
    fn is_same(&self) -> regemm::Result<bool>;
}

struct Of<T: Element> {
    kernel: &'static str,
    a: Matrix<T>,
    b: Matrix<T>,
    /// The graph's, and that of direct calls.
    d: [Matrix<T>; 2],
    workspace: Option<Workspace>,
}

impl<T: Element> Of<T> {
    /// With a workspace of its own, as the library advises, or with the stream's.
    fn new(
        device: &Device,
        kernel: &'static str,
        (m, n, k): (usize, usize, usize),
        has_workspace: bool,
    ) -> regemm::Result<Of<T>> {
        let (a, b) = (device.matrix(m, k)?, device.matrix(k, n)?);
        let d = [device.matrix(m, n)?, device.matrix(m, n)?];
        let mut product = Of { kernel, a, b, d, workspace: None };
        if has_workspace {
            let Of { a, b, d: [d, _], .. } = &mut product;
            let needed = Gemm::new(&*a, &*b).kernel(choice(kernel)).workspace_size(d)?;
            assert_ne!(needed, WorkspaceSize::default(), "{kernel} needs no workspace");
            product.workspace = Some(device.workspace(needed)?);
        }
        Ok(product)
    }
}

/// A kernel by its name; the library's choice without one.
fn choice(kernel: &str) -> KernelChoice {
    if kernel.is_empty() { KernelChoice::Auto } else { KernelChoice::Named(kernel.to_owned()) }
}

impl<T: Element> Product for Of<T> {
    fn name(&self) -> String {
        let [d, _] = &self.d;
        let kernel = if self.kernel.is_empty() { "chosen" } else { self.kernel };
        format!("{kernel} {} {} x {} x {}", T::DTYPE, d.rows(), d.cols(), self.a.cols())
    }

    fn enqueue(&mut self, stream: &Stream, is_direct: bool) -> regemm::Result<Report> {
        let mut gemm = Gemm::new(&self.a, &self.b).kernel(choice(self.kernel));
        if let Some(workspace) = &self.workspace {
            gemm = gemm.workspace(workspace);
        }
        gemm.enqueue(stream, &mut self.d[usize::from(is_direct)])
    }

    fn change(&mut self, seed: u64) -> regemm::Result<()> {
        let mut rng = rng(seed, 0);
        for factor in [&mut self.a, &mut self.b] {
            let (rows, cols) = (factor.rows(), factor.cols());
            let values = random_matrix::<T>(&mut rng, rows, cols, Distribution::Normal);
            factor.copy_from(&values.view())?;
        }
        for d in &mut self.d {
            let nan = T::narrow(T::Acc::constant(f64::NAN));
            let poison = Array2::from_elem((d.rows(), d.cols()), nan);
            d.copy_from(&poison.view())?;
        }
        Ok(())
    }

    fn is_same(&self) -> regemm::Result<bool> {
        let [graph, direct] = &self.d;
        let (graph, direct) = (graph.to_vec()?, direct.to_vec()?);
        // Two that were never computed have the same bits, but NaN equals nothing.
        Ok(graph == direct && bits(&graph) == bits(&direct))
    }
}

/// A product of which the GPU decides, by what A holds at each launch, how it is computed.
struct Decided {
    of: Of<f32>,
    /// Those of the graph and of direct calls.
    records: [PrecisionRecord; 2],
    expected: Precision,
}

impl Product for Decided {
    fn name(&self) -> String {
        format!("{} of precision auto", self.of.name())
    }

    fn enqueue(&mut self, stream: &Stream, is_direct: bool) -> regemm::Result<Report> {
        let Of { a, b, d, .. } = &mut self.of;
        let gemm = Gemm::new(&*a, &*b).precision(Precision::Auto).auto_at_any_size();
        let index = usize::from(is_direct);
        gemm.record_precision(&self.records[index]).enqueue(stream, &mut d[index])
    }

    fn change(&mut self, seed: u64) -> regemm::Result<()> {
        self.of.change(seed)?;
        self.expected = Precision::Split;
        if !seed.is_multiple_of(2) {
            // Halves would lose it.
            self.of.a.view_mut().slice(3..4, 5..6)?.copy_from(&array![[1e-30]].view())?;
            self.expected = Precision::Exact;
        }
        Ok(())
    }

    fn is_same(&self) -> regemm::Result<bool> {
        for record in &self.records {
            if record.computed()? != Some(Computed::In(self.expected)) {
                return Ok(false);
            }
        }
        self.of.is_same()
    }
}

fn bits<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: elements are floats, which have no padding, and bytes may lie anywhere.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// A kernel by its name, or the library's choice; M, N and K; whether it has a workspace of its own.
type Launched = (&'static str, (usize, usize, usize), bool);

const SINGLE: [Launched; 5] = [
    ("", (64, 64, 64), false),
    ("", (1023, 1025, 1027), false),
    ("stream_k", (600, 700, 500), false),
    ("split_k16", (16, 64, 512), true),
    ("skinny_rows", (1, 512, 8192), true),
];

const HALF: [Launched; 6] = [
    ("skinny_rows", (2, 512, 8192), true),
    ("warpgroup", (512, 1024, 512), false),
    ("warpgroup_pair", (1024, 768, 512), false),
    ("split_warpgroup128", (128, 128, 8192), true),
    ("warpgroup64", (264, 263, 264), true),
    ("warpgroup64", (264, 263, 264), false),
];

/// Why a device cannot run a kernel of [`SINGLE`] or [`HALF`].
fn refusal(device: &Device, name: &str, dtype: Dtype) -> Option<regemm::Error> {
    if name.is_empty() {
        return None;
    }
    gpu::refusal(device, kernels::find_for(name, dtype).expect("a kernel of the table"))
}

fn can_run(device: &Device, name: &str, dtype: Dtype) -> bool {
    refusal(device, name, dtype).is_none()
}

/// Whether the library decides on the device itself how products of f32 are computed.
fn decides(device: &Device) -> bool {
    device.info().compute_capability == Some((9, 0))
}

/// What there are no products of, and why.
fn left_out(device: &Device) -> BTreeSet<String> {
    let single = SINGLE.map(|(kernel, ..)| (kernel, Dtype::F32));
    let half = HALF.map(|(kernel, ..)| (kernel, Dtype::Bf16));
    let of_kernel = |(kernel, dtype)| {
        let why = refusal(device, kernel, dtype)?;
        Some(format!("{kernel} in {dtype}: {why}"))
    };
    let mut left_out: BTreeSet<_> = single.into_iter().chain(half).filter_map(of_kernel).collect();
    if !decides(device) {
        left_out.insert("precision auto: it is decided on compute capability 9.0 alone".to_owned());
    }
    left_out
}

/// One of each kind of launch: alone, with unfinished sums and their reducer, with blocks that wait for one another,
/// with maps of the factors, with clusters, and with copies of factors whose rows are odd. Without those whose kernels
/// the GPU cannot run.
fn products(device: &Device) -> regemm::Result<Vec<Box<dyn Product>>> {
    let mut products: Vec<Box<dyn Product>> = Vec::new();
    for (kernel, shape, has_workspace) in SINGLE {
        if can_run(device, kernel, Dtype::F32) {
            products.push(Box::new(Of::<f32>::new(device, kernel, shape, has_workspace)?));
        }
    }
    for (kernel, shape, has_workspace) in HALF {
        if can_run(device, kernel, Dtype::Bf16) {
            products.push(Box::new(Of::<bf16>::new(device, kernel, shape, has_workspace)?));
        }
    }
    if decides(device) {
        // The sums of the second are in slices of K, which one more launch adds up.
        for shape in [(1024, 1024, 1024), (512, 512, 4096)] {
            let records = [device.precision_record(1)?, device.precision_record(1)?];
            let of = Of::<f32>::new(device, "", shape, false)?;
            let expected = Precision::Split;
            products.push(Box::new(Decided { of, records, expected }));
        }
    }
    Ok(products)
}

/// Products on two streams, each of the result of the one before: the second stream comes into the capture by waiting
/// for an event of it, and the library puts all of them in order.
fn two_streams_of_a_graph_are_in_order(device: &Device, mode: c_int) -> Outcome<()> {
    const M: usize = 320;
    const N: usize = 512;
    const K: usize = 192;
    let matrix = |rows, cols| device.matrix::<f32>(rows, cols);
    let (one, two) = (device.stream()?, device.stream()?);
    let (mut x, mut w) = (device.zeros::<f32>(M, K)?, device.zeros::<f32>(K, N)?);
    let results = || Ok::<_, regemm::Error>([matrix(M, N)?, matrix(M, K)?, matrix(K, N)?]);
    let mut results = [results()?, results()?];
    let enqueue = |factors: [&Matrix<f32>; 2], [h, y, z]: &mut [Matrix<f32>; 3]| {
        let [x, w] = factors;
        Gemm::new(x, w).precision(Precision::Exact).enqueue(&one, &mut *h)?;
        Gemm::new(&*h, w.t()).precision(Precision::Exact).enqueue(&two, &mut *y)?;
        Gemm::new(y.t(), &*h).precision(Precision::Exact).enqueue(&one, z)?;
        Outcome::Ok(())
    };
    enqueue([&x, &w], &mut results[0])?;
    device.synchronize()?;
    let graphs = Graphs::load()?;
    let graph = graphs.capture(&one, mode, || {
        two.wait(&one.record()?)?;
        enqueue([&x, &w], &mut results[0])
    })?;
    let mut rng = rng(1, 0);
    for (factor, rows, cols) in [(&mut x, M, K), (&mut w, K, N)] {
        let values = random_matrix::<f32>(&mut rng, rows, cols, Distribution::Normal);
        factor.copy_from(&values.view())?;
    }
    graph.launch(&one)?;
    enqueue([&x, &w], &mut results[1])?;
    for [graph, direct] in [0, 1, 2].map(|i| [&results[0][i], &results[1][i]]) {
        let (graph, direct) = (graph.to_vec()?, direct.to_vec()?);
        let is_computed = direct.iter().all(|x| x.is_finite()) && direct.iter().any(|&x| x != 0.0);
        if bits(&graph) != bits(&direct) || !is_computed {
            return Err("the graph's products are not those of the calls".into());
        }
    }
    graph.destroy(&one)
}

/// All products in one graph, which is launched twice, with other factors each time.
fn graphs_give_the_bits_of_calls(device: &Device, mode: c_int) -> Outcome<()> {
    const LAUNCHES: u64 = 2;
    let stream = device.stream()?;
    let mut products = products(device)?;
    // As the library's documentation of streams says.
    for product in &mut products {
        product.enqueue(&stream, false)?;
    }
    stream.synchronize()?;
    let graphs = Graphs::load()?;
    let graph = graphs.capture(&stream, mode, || {
        for product in &mut products {
            product.enqueue(&stream, false).map_err(|e| format!("{}: {e}", product.name()))?;
        }
        Ok(())
    })?;
    // The stream's workspace moves; the graph goes on with the one that it knows.
    if can_run(device, "warpgroup64", Dtype::Bf16) {
        let mut larger = Of::<bf16>::new(device, "warpgroup64", (4104, 4103, 4104), false)?;
        larger.enqueue(&stream, false)?;
    } else {
        let mut larger = Of::<f32>::new(device, "split_k16", (512, 512, 8192), false)?;
        larger.enqueue(&stream, false)?;
    }
    for seed in 0..LAUNCHES {
        for product in &mut products {
            product.change(seed)?;
        }
        graph.launch(&stream)?;
        for product in &mut products {
            product.enqueue(&stream, true)?;
        }
        stream.synchronize()?;
        for product in &products {
            if !product.is_same()? {
                return Err(format!("launch {seed}: {} has other bits", product.name()).into());
            }
        }
    }
    graph.destroy(&stream)
}

/// Of a GPU that is no Hopper no trial fails because of what it lacks, and what is left out is said once, with the
/// reason.
fn products_are_of_kernels_that_can_run(others: &Others) -> others::Outcome {
    let said = others.run(NO_HOPPER, &[], &["cuda:0::"])?;
    let (left_out, rest): (Vec<_>, Vec<_>) =
        said.text.lines().partition(|line| line.starts_with("without "));
    expect("a trial", rest.iter().any(|line| line.starts_with("test cuda:0::global")), &said)?;
    let fails = rest.iter().any(|line| line.contains("kernel") && line.contains("needs "));
    expect("no failure because of needs", !fails, &said)?;
    let of = |start: &str| left_out.iter().filter(|line| line.starts_with(start)).count();
    for left_out in ["warpgroup64 in bf16: ", "split_warpgroup128 in bf16: ", "precision auto: "] {
        let start = format!("without {left_out}");
        expect(&start, of(&start) == 1, &said)?;
    }
    Ok(())
}

/// There is nothing to capture with a driver that is too old; that is said, and a failure where there has to be a GPU.
fn drivers_without_graphs_are_none(others: &Others) -> others::Outcome {
    let settings = [("FAKE_CUDA_VERSION", "11000"), ("REGEMM_REQUIRE_GPU", "1")];
    let listed = others.run(NO_HOPPER, &settings[..1], &["--list"])?;
    expect("no trial on a GPU", !listed.text.contains("cuda:0::"), &listed)?;
    let passes = ["--exact", "gpu_is_there_if_required"];
    let says_why = |said: &others::Said| said.text.contains("the driver supports CUDA 11.0");
    let said = others.run(NO_HOPPER, &settings[..1], &passes)?;
    expect("success, and why nothing is captured", said.success && says_why(&said), &said)?;
    let said = others.run(NO_HOPPER, &settings, &passes)?;
    expect("a failure, and why", !said.success && says_why(&said), &said)
}
