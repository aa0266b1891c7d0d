//! Several builds of one build script, which may have one folder.

mod common;

use common::{KERNELS, folder_in_target, kernel_crate, text};

/// Other kernels, or the same compiled otherwise: whoever is built last leaves the modules of the others as they are.
#[test]
fn builds_with_one_folder_keep_their_modules() {
    let folder = folder_in_target("one_folder");
    let out = folder.join("out");
    let plain = || kernel_crate(&folder.join("first"), KERNELS).arch("sm_80").out_dir(&out);
    let other = KERNELS.replace("fn count", "fn other").replace("fn lookup", "fn another");
    let other = other.replace("lookup .m", "another .m");
    let other = kernel_crate(&folder.join("second"), &other).arch("sm_80").out_dir(&out);
    let mut built = cuda_builder::build_all([plain(), plain().features(["twice"])]).unwrap();
    built.push(other.build().unwrap());

    for (modules, entry, value) in [
        (&built[0], "count", "111111"),
        (&built[1], "count", "222222"),
        (&built[2], "other", "111111"),
    ] {
        let ptx = text(modules, "sm_80", entry);
        assert!(ptx.contains(value), "{ptx}");
        for module in modules {
            assert!(module.path.starts_with(&out), "{module:?}");
            assert_eq!(std::fs::metadata(&module.path).unwrap().len(), module.bytes as u64);
            assert_eq!(
                std::fs::metadata(&module.packed).unwrap().len(),
                module.packed_bytes as u64
            );
        }
    }
    // The same once more is in the same place.
    assert_eq!(plain().build().unwrap(), built[0]);
}

/// Two builds that want the same folder at the same time, as those of two profiles may.
#[test]
fn builds_at_the_same_time_wait_for_each_other() {
    let folder = folder_in_target("same_time");
    let plain = kernel_crate(&folder, KERNELS).arch("sm_80");
    let builders = [plain.clone(), plain.features(["twice"])];
    let built = builders.map(|builder| std::thread::spawn(|| builder.build().unwrap()));
    let counts = built.map(|modules| text(&modules.join().unwrap(), "sm_80", "count"));
    for (count, value) in counts.iter().zip(["111111", "222222"]) {
        assert!(count.contains(value), "{count}");
    }
}
