//! Mbarriers that lie where something else is read or written: each kind of access that can meet one.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, fault, launch, upload};
use cuda_std::async_copy::copy_async;
use cuda_std::bulk_copy::{
    TensorMap, commit_group, fence_shared, load_2d, load_3d_multicast, store_2d, wait_group,
};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator};
use cuda_std::swizzle::Swizzle as BoxSwizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::wgmma::{self, Accumulators, KMajor, Layout, M, Swizzle, THREADS};
use cuda_std::{cluster, kernel, shared, thread};
use half::bf16;

const SOURCE: &str = include_str!("mbarrier_overwritten.rs");

/// Columns of B.
const N: usize = 64;

/// Operands without a pattern: 8 rows of 16 bytes follow each other, and so do the two halves of K and the groups of
/// rows.
const OPERAND: Layout<bf16, KMajor> = Layout::new(Swizzle::None, 128, 256);

/// Bytes of A and B, which boxes are parts of, and where the mbarrier lies: in B.
const A_BYTES: u32 = (M * 16 * 2) as u32;
const BYTES: u32 = A_BYTES + (N * 16 * 2) as u32;
const AT: u32 = A_BYTES + 40;

/// A box of one row, which begins at B and ends behind the mbarrier.
const BOX: u32 = 32;

/// What meets the mbarrier.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum What {
    /// Nothing: the words before and behind it are used.
    Nothing,
    Load,
    Store,
    /// A byte in its middle.
    ByteLoaded,
    ByteStored,
    /// 16 bytes that begin before it.
    WideLoad,
    WideStore,
    Copied,
    ZeroCopied,
    BulkLoad,
    BulkStore,
    /// A bulk load to both blocks of the cluster.
    Multicast,
    /// The operand of a matrix instruction.
    Operand,
    /// A load from the other block of the cluster.
    RemoteLoad,
}
use What::*;

#[kernel(cluster = 2)]
unsafe fn meet(
    d: GlobalPtr<u32>,
    #[grid_constant] plane: &TensorMap,
    #[grid_constant] batch: &TensorMap,
    what: What,
) {
    let i = thread::thread_idx_x();
    let bytes = shared::dynamic::<u8>();
    let at = bytes.add(AT);
    let b = bytes.add(A_BYTES).cast::<u32>();
    // 16 bytes, of which the mbarrier has the second half.
    let wide = b.add(8);
    let meets = Mbarrier::new(at.cast());
    let loads = Mbarrier::new(bytes.add(BYTES).cast());
    unsafe {
        let mut sums = Accumulators::<N>::declare();
        for word in (i..BYTES / 4).step_by(THREADS as usize) {
            bytes.cast::<u32>().add(word).store(0);
        }
        fence_shared();
        thread::sync_threads();
        if i == 0 {
            if what != Nothing {
                meets.init(1);
            }
            loads.init(1);
            fence_init();
        }
        cluster::sync();
        if i == 32 && (what != RemoteLoad || cluster::rank() == 0) {
            match what {
                Load => d.store(at.cast::<u32>().load()),           // meets
                Store => at.cast::<u64>().store(1),                 // meets
                ByteLoaded => d.store(at.add(3).load().into()),     // meets
                ByteStored => at.add(7).store(1),                   // meets
                WideLoad => d.store(wide.load_vec::<4>()[0]),       // meets
                WideStore => wide.store_vec([1; 4]),                // meets
                Copied => copy_async::<u32, 4>(wide, d, true),      // meets
                ZeroCopied => copy_async::<u32, 4>(wide, d, false), // meets
                BulkLoad | Nothing => {
                    loads.arrive_expect_tx(4 * BOX);
                    load_2d(b, plane, [0, 0], loads); // meets
                    loads.wait(0);
                }
                BulkStore => {
                    store_2d(plane, [0, 0], b); // meets
                    commit_group();
                    wait_group::<0>();
                }
                Multicast => {
                    loads.arrive_expect_tx(4 * BOX);
                    load_3d_multicast(b, batch, [0, 0, 0], loads, 0b11); // meets
                }
                RemoteLoad => {
                    let other = 1 - cluster::rank();
                    d.store(cluster::load_vector::<u32, 4>(wide, other)[0]); // meets
                }
                Operand => {}
            }
        }
        if what == Operand {
            wgmma::fence();
            sums.mma_async(OPERAND.at(bytes.cast()), OPERAND.at(b.cast()), false); // meets
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
        cluster::sync();
    }
}

#[test]
fn nothing_else_may_touch_an_mbarrier() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32; 4]);
    let matrix = alloc::<u32>(&simulator, BOX as usize);
    let (kind, swizzle) = (ElementType::U32, BoxSwizzle::None);
    let plane = TiledTensor::matrix(
        kind,
        matrix.address(),
        (1, BOX.into()),
        (4 * BOX).into(),
        (1, BOX),
        swizzle,
    );
    let batch = TiledTensor { rank: 3, strides: [(4 * BOX).into(); 4], ..plane };
    let [plane, batch] = [plane, batch].map(|tensor| simulator.tensor_map(&tensor).unwrap());
    let run = |what: What| launch!(simulator, meet[2, THREADS, BYTES + 8](d, plane, batch, what));
    run(Nothing).unwrap();
    for (what, kind, distance, bytes) in [
        (Load, Read, 0, 4),
        (Store, Write, 0, 8),
        (ByteLoaded, Read, -3, 1),
        (ByteStored, Write, -7, 1),
        (WideLoad, Read, 8, 16),
        (WideStore, Write, 8, 16),
        (Copied, Write, 8, 16),
        (ZeroCopied, Write, 8, 16),
        (BulkLoad, Write, 8, 16),
        (BulkStore, Read, 8, 16),
        (Multicast, Write, 8, 16),
        (Operand, Read, 8, 16),
        (RemoteLoad, Read, 8, 16),
    ] {
        let fault = fault(run(what));
        assert_eq!(fault.kind, FaultKind::MbarrierOverwritten, "{what:?}");
        let access = fault.access.unwrap();
        assert_eq!((access.kind, access.bytes), (kind, bytes), "{what:?}");
        let text = match distance {
            0 => "lies there".to_owned(),
            1.. => format!("lies {distance} bytes behind"),
            _ => format!("lies {} bytes before", -distance),
        };
        assert!(fault.message.contains(&text), "{fault}");
        let line = fault.location.as_ref().unwrap().line as usize - 1;
        assert!(SOURCE.lines().nth(line).unwrap().ends_with("// meets"), "{fault}");
    }
}
