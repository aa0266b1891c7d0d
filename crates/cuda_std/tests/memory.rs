//! The host's side of global memory.

mod common;

use cuda_std::sim::{SimError, Simulator};

#[test]
fn allocations() {
    let simulator = Simulator::with_memory(10_000);
    let a = simulator.alloc(1000).unwrap();
    let b = simulator.alloc(1).unwrap();
    let empty = simulator.alloc(0).unwrap();
    assert!([a, b, empty].iter().all(|address| address % 256 == 0 && *address != 0));
    assert!(b >= a + 1000 + 256, "a guard lies between allocations");
    assert_ne!(b, empty);
    assert_eq!(simulator.memory_usage(), (10_000, 1001));

    let refused = simulator.alloc(9000);
    assert_eq!(refused, Err(SimError::OutOfMemory { requested: 9000, available: 8999 }));
    simulator.free(b).unwrap();
    let c = simulator.alloc(9000).unwrap();
    assert!(c > b, "addresses are not used again");
    assert_eq!(simulator.memory_usage(), (10_000, 10_000));
    simulator.free(empty).unwrap();
}

#[test]
fn addresses_belong_to_one_simulator() {
    let (one, two) = (Simulator::new(), Simulator::new());
    let (a, b) = (one.alloc(16).unwrap(), two.alloc(16).unwrap());
    assert_ne!(a, b);
    assert_eq!(two.read(a, &mut [0]), Err(SimError::InvalidAddress { address: a, bytes: 1 }));
    assert_eq!(one.free(b), Err(SimError::InvalidAddress { address: b, bytes: 0 }));
    // A clone is the same device.
    one.clone().write(a, &[7]).unwrap();
    let mut byte = [0];
    one.read(a, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn copies_of_any_alignment_and_length() {
    let simulator = Simulator::new();
    let a = simulator.alloc(41).unwrap();
    let mut expected = [0xff; 41];
    let mut all = [0; 41];
    simulator.read(a, &mut all).unwrap();
    assert_eq!(all, expected);
    for start in 0..12 {
        for len in 0..=41 - start {
            let bytes: Vec<u8> = (0..len).map(|i| (start * 16 + i + len) as u8).collect();
            simulator.write(a + start as u64, &bytes).unwrap();
            expected[start..start + len].copy_from_slice(&bytes);
            let mut part = vec![0; len];
            simulator.read(a + start as u64, &mut part).unwrap();
            assert_eq!(part, bytes);
            simulator.read(a, &mut all).unwrap();
            assert_eq!(all, expected);
        }
    }
}

#[test]
fn fills() {
    let simulator = Simulator::new();
    let bytes = 10_007;
    let a = simulator.alloc(bytes).unwrap();
    simulator.fill(a + 3, bytes - 5, 0xab).unwrap();
    let mut all = vec![0; bytes as usize];
    simulator.read(a, &mut all).unwrap();
    assert_eq!((&all[..3], &all[10_005..]), (&[0xff; 3][..], &[0xff; 2][..]));
    assert!(all[3..10_005].iter().all(|&byte| byte == 0xab));
}

#[test]
fn ranges_that_are_not_in_one_allocation() {
    let simulator = Simulator::new();
    let a = simulator.alloc(100).unwrap();
    let b = simulator.alloc(100).unwrap();
    let invalid = |address, bytes| Err(SimError::InvalidAddress { address, bytes });
    assert_eq!(simulator.write(a + 99, &[0; 2]), invalid(a + 99, 2));
    assert_eq!(simulator.read(a, &mut [0; 101]), invalid(a, 101));
    assert_eq!(simulator.read(a - 1, &mut [0; 1]), invalid(a - 1, 1));
    assert_eq!(simulator.fill(a, b - a + 1, 0), invalid(a, b - a + 1));
    assert_eq!(simulator.fill(a, u64::MAX, 0), invalid(a, u64::MAX));
    assert_eq!(simulator.read(0, &mut [0; 1]), invalid(0, 1));
    assert_eq!(simulator.read(u64::MAX, &mut [0; 8]), invalid(u64::MAX, 8));
    // An empty range at the end is fine.
    assert_eq!(simulator.write(a + 100, &[]), Ok(()));

    assert_eq!(simulator.free(a + 1), invalid(a + 1, 0));
    simulator.free(a).unwrap();
    assert_eq!(simulator.free(a), invalid(a, 0));
    assert_eq!(simulator.read(a, &mut [0; 1]), invalid(a, 1));
    let text = simulator.free(a).unwrap_err().to_string();
    assert!(text.contains(&format!("{a:#x}")), "{text}");
}

/// Memory that nobody touches costs nothing, and more than the host has is refused, not a crash.
#[test]
fn large_allocations() {
    let simulator = Simulator::new();
    let gib = 1 << 30;
    let a = simulator.alloc(5 * gib).unwrap();
    simulator.write(a + 5 * gib - 1, &[1]).unwrap();
    let mut bytes = [0; 2];
    simulator.read(a + 5 * gib - 2, &mut bytes).unwrap();
    assert_eq!(bytes, [0xff, 1]);
    let all = Simulator::with_memory(u64::MAX);
    for requested in [u64::MAX, u64::MAX / 2, 1 << 62] {
        let result = all.alloc(requested);
        assert!(matches!(result, Err(SimError::OutOfMemory { .. })), "{result:?}");
    }
    assert!(all.alloc(16).is_ok());
}
