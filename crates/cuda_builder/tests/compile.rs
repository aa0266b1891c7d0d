//! Compiles kernel crates written to folders of their own, with the compiler of this machine, and looks at the PTX.

mod common;

use std::fs;

use cuda_builder::{CudaBuilder, Error, PtxModule, PtxModules};

use common::{KERNELS, folder_in_target, kernel_crate, text};

#[test]
fn a_kernel_crate_becomes_one_module_a_kernel_and_architecture() {
    let folder = folder_in_target("modules");
    let copies = folder.join("copies");
    let modules =
        kernel_crate(&folder, KERNELS).archs(["sm_75", "sm_90a"]).copy_to(&copies).build().unwrap();

    let names = |module: &PtxModule| (module.arch.clone(), module.entry.clone());
    let found: Vec<_> = modules.iter().map(names).collect();
    for arch in ["sm_75", "sm_90a"] {
        for entry in ["lookup", "count"] {
            assert!(found.contains(&(arch.to_string(), entry.to_string())), "{found:?}");
            let ptx = text(&modules, arch, entry);
            assert!(ptx.contains(&format!("\n.target {arch}\n")), "{ptx}");
            assert!(ptx.contains(&format!(".visible .entry {entry}(")), "{ptx}");
            assert_eq!(ptx.matches(".entry").count(), 1, "{ptx}");
            let copy = copies.join(arch).join(entry).with_extension("ptx");
            assert_eq!(fs::read_to_string(copy).unwrap(), ptx);
        }
        let (lookup, count) = (text(&modules, arch, "lookup"), text(&modules, arch, "count"));
        let header = lookup.split_once(".entry lookup(").unwrap().1.split_once("\n{").unwrap().0;
        assert!(header.contains("\n.maxntid 128"), "{lookup}");
        assert!(header.contains("\n.minnctapersm 2"), "{lookup}");
        assert!(lookup.contains(".func") && lookup.contains("only_here"), "{lookup}");
        assert!(!count.contains(".maxntid") && !count.contains("only_here"), "{count}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    for module in &modules {
        let (major, minor) = module.isa;
        let ptx = text(&modules, &module.arch, &module.entry);
        assert!(ptx.contains(&format!(".version {major}.{minor}\n")), "{ptx}");
        assert!(module.packed_bytes < module.bytes, "{module:?}");
    }
}

/// Kernels in modules of their own, which rustc compiles apart: both use a function, a table and a message of others,
/// and each has a constant that has the same name.
const APART: &str = r#"
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]

mod common {
    pub static NAMES: [&str; 2] = ["one", "two"];

    #[inline(never)]
    pub fn name(index: usize) -> &'static str {
        NAMES[index]
    }

    #[inline(never)]
    pub fn check(index: usize) {
        assert!(index < 100, "{index} is {}", name(index & 1));
    }
}

mod first {
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn first(out: *mut u8, index: usize) {
        super::common::check(index);
        unsafe { *out = super::common::name(index).as_bytes()[0] }
    }
}

mod second {
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn second(out: *mut u8, index: usize) {
        super::common::check(index + 1);
        unsafe { *out = super::common::name(index).as_bytes()[1] }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    core::hint::black_box(info.message());
    loop {}
}
"#;

#[test]
fn parts_that_are_compiled_apart_become_whole_modules() {
    let folder = folder_in_target("apart");
    let modules = kernel_crate(&folder, APART).archs(["sm_75", "sm_80"]).build().unwrap();
    assert_eq!(modules.iter().count(), 4);
    for module in &modules {
        let ptx = text(&modules, &module.arch, &module.entry);
        assert!(ptx.contains(&format!(".visible .entry {}(", module.entry)), "{ptx}");
        assert!(!ptx.contains(".extern"), "{ptx}");
        assert!(ptx.contains("anon") && !ptx.contains("anon."), "names without dots in\n{ptx}");
        for name in ["common4name", "common5check"] {
            let bodies = ptx.split("\n}").filter(|item| {
                let head = item.rsplit_once("\n{").map_or("", |(before, _)| before);
                head.rsplit(".func").next().is_some_and(|head| head.contains(name))
            });
            assert_eq!(bodies.count(), 1, "{name} is defined once in\n{ptx}");
        }
    }
}

/// One crate edited again and again, as its author would.
#[test]
fn a_crate_is_edited_and_built_again() {
    let folder = folder_in_target("edited");
    let crate_with = |source: &str| kernel_crate(&folder, source).arch("sm_80");
    let modules = crate_with(KERNELS).build().unwrap();
    let lookup = modules.iter().find(|module| module.entry == "lookup").unwrap().path.clone();
    let written = || fs::metadata(&lookup).unwrap().modified().unwrap();
    let (before, count) = (written(), text(&modules, "sm_80", "count"));
    assert!(count.contains("111111"), "{count}");

    // A changed kernel is compiled; the file of the other is not even written.
    let modules = crate_with(&KERNELS.replace("111_111", "333_333")).build().unwrap();
    let count = text(&modules, "sm_80", "count");
    assert!(count.contains("333333"), "{count}");
    assert_eq!(written(), before);

    // Cargo features reach the kernels.
    let modules = crate_with(KERNELS).features(["twice"]).build().unwrap();
    let count = text(&modules, "sm_80", "count");
    assert!(count.contains("222222"), "{count}");

    // A mistake is shown in rustc's own words.
    let source = KERNELS.replace("TABLE[index & 3]", "TABEL[index & 3]");
    let error = crate_with(&source).build().unwrap_err();
    assert!(matches!(error, Error::Compile { .. }));
    let message = error.to_string();
    assert!(message.contains("does not compile for sm_80"), "{message}");
    assert!(message.contains("error[E0425]: cannot find value `TABEL`"), "{message}");
    assert!(message.contains("src/lib.rs:"), "{message}");

    // No kernel is left.
    let (_, panic_handler) = KERNELS.split_once("#[panic_handler]").unwrap();
    let source = format!("#![no_std]\n#[panic_handler]{panic_handler}");
    let error = crate_with(&source).build().unwrap_err();
    assert!(matches!(error, Error::NoEntries { .. }), "{error}");
}

/// Builds in one target folder, as those of a package with different features are, compile `core` and a kernel crate
/// once; and each gets the kernels of the source as it is, whoever compiled last.
#[test]
fn builds_in_one_target_folder_share_what_they_compile() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
    let build = |of: &str, source: &str, features: &[&str]| {
        let builder = kernel_crate(folder.path(), source).out_dir(target.join(of).join("out"));
        let modules = builder.arch("sm_80").features(features.iter().copied()).build().unwrap();
        text(&modules, "sm_80", "count")
    };
    // When each of the PTX texts that are kept was written.
    let compiled = || {
        let files = fs::read_dir(target.join("cuda_builder/sm_80")).unwrap();
        let files = files.map(|file| file.unwrap());
        let texts = files.filter(|file| file.path().extension().is_some_and(|e| e == "ptx"));
        texts.map(|file| file.metadata().unwrap().modified().unwrap()).collect::<Vec<_>>()
    };

    assert!(build("one", KERNELS, &[]).contains("111111"));
    let once = compiled();
    assert!(build("two", KERNELS, &[]).contains("111111"));
    assert_eq!(compiled(), once, "nothing is compiled again");

    // Another way to compile the same source, and back: the last PTX that was written is not the right one.
    assert!(build("two", KERNELS, &["twice"]).contains("222222"));
    assert!(build("one", KERNELS, &[]).contains("111111"));
    assert_eq!(compiled().len(), 2);

    // An edited source, for both; and after a mistake in it the one before.
    let edited = KERNELS.replace("111_111", "333_333");
    assert!(build("two", &edited, &[]).contains("333333"));
    assert!(build("one", &edited, &[]).contains("333333"));
    let broken = kernel_crate(folder.path(), "mistake").out_dir(target.join("one/out"));
    broken.arch("sm_80").build().unwrap_err();
    assert!(build("one", &edited, &[]).contains("333333"));

    // Another crate of the same name, whose sources are its own: the first one's do not make it stale.
    let other = folder.path().join("other");
    let build_other = || {
        let out_dir = target.join("other/out");
        kernel_crate(&other, KERNELS).out_dir(out_dir).arch("sm_80").build().unwrap()
    };
    assert!(text(&build_other(), "sm_80", "count").contains("111111"));
    let before = compiled();
    fs::remove_dir_all(folder.path().join("kernels")).unwrap();
    build_other();
    assert_eq!(compiled(), before);

    // Other settings of cargo, which stand beside the crate.
    fs::create_dir(other.join("kernels/.cargo")).unwrap();
    fs::write(other.join("kernels/.cargo/config.toml"), "[term]\nquiet = true\n").unwrap();
    build_other();
    assert_ne!(compiled(), before, "compiled again");
}

/// Two crates, and of the first several architectures: each has its own modules, in the order asked for.
#[test]
fn crates_that_are_built_together_keep_their_order() {
    let folder = folder_in_target("together_in_order");
    let first = kernel_crate(&folder.join("first"), KERNELS).archs(["sm_75", "sm_80"]);
    let second = kernel_crate(&folder.join("second"), KERNELS).arch("sm_80").features(["twice"]);
    let built = cuda_builder::build_all([first, second]).unwrap();

    let archs = |modules: &PtxModules| {
        let mut archs: Vec<_> = modules.iter().map(|module| module.arch.clone()).collect();
        archs.dedup();
        archs
    };
    assert_eq!(
        built.iter().map(archs).collect::<Vec<_>>(),
        [vec!["sm_75", "sm_80"], vec!["sm_80"]]
    );
    for arch in ["sm_75", "sm_80"] {
        let count = text(&built[0], arch, "count");
        assert!(
            count.contains("111111") && count.contains(&format!(".target {arch}\n")),
            "{count}"
        );
    }
    let count = text(&built[1], "sm_80", "count");
    assert!(count.contains("222222"), "{count}");

    // A mistake in one of them is told.
    let broken = kernel_crate(&folder.join("first"), "mistake").arch("sm_80");
    let sound = kernel_crate(&folder.join("second"), KERNELS).arch("sm_80");
    let error = cuda_builder::build_all([sound, broken]).unwrap_err();
    assert!(matches!(error, Error::Compile { .. }), "{error}");
}

/// Cargo may be told to keep intermediate files elsewhere, as for all that it builds.
#[test]
fn intermediate_files_may_lie_elsewhere_for_others() {
    let folder = folder_in_target("elsewhere");
    let builder = kernel_crate(&folder, KERNELS);
    let configuration = folder.join("kernels/.cargo");
    fs::create_dir_all(&configuration).unwrap();
    fs::write(configuration.join("config.toml"), "[build]\nbuild-dir = \"../elsewhere\"\n")
        .unwrap();
    let modules = builder.archs(["sm_80", "sm_90a"]).build().unwrap();
    for arch in ["sm_80", "sm_90a"] {
        assert!(text(&modules, arch, "count").contains("111111"));
    }
    assert!(!folder.join("elsewhere").exists());
}

#[test]
fn a_build_without_architectures_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = kernel_crate(folder.path(), KERNELS).build().unwrap_err();
    assert!(matches!(error, Error::Configuration(_)), "{error}");
}

/// rustc itself goes on with a name that it does not know, and compiles for the least of its architectures.
#[test]
fn an_architecture_that_the_compiler_does_not_know_is_an_error() {
    let folder = folder_in_target("unknown");
    for arch in ["sm90a", "80", "sm_999", "sm_90f", "", "native"] {
        let error = kernel_crate(&folder, KERNELS).archs(["sm_80", arch]).build().unwrap_err();
        assert!(matches!(error, Error::Configuration(_)), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("`{arch}`")), "{message}");
        assert!(message.contains("sm_75, sm_80, "), "the names that there are: {message}");
    }
}

#[test]
fn a_folder_without_a_crate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nosuch");
    for kernels in [&*missing, folder.path()] {
        let builder = CudaBuilder::new(kernels).arch("sm_80").out_dir(folder.path().join("out"));
        let error = builder.build().unwrap_err();
        assert!(matches!(error, Error::Configuration(_)), "{error}");
        assert!(
            error.to_string().contains(&kernels.join("Cargo.toml").display().to_string()),
            "{error}"
        );
    }
}

/// `cargo vendor` copies the package of a build script without packages in it.
#[test]
fn a_crate_that_was_not_vendored_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".cargo-checksum.json"), "{}").unwrap();
    let builder = CudaBuilder::new(folder.path().join("kernels")).arch("sm_80");
    let error = builder.out_dir(folder.path().join("out")).build().unwrap_err().to_string();
    assert!(error.contains("cargo vendor") && error.contains("`path`"), "{error}");
}
