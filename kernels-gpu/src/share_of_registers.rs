//! How the registers of a block are divided between producers, who bring slices, and consumers, who multiply and
//! [take](cuda_std::registers) what producers give up (`setmaxnreg`).

/// Registers of a multiprocessor, which are also the most that a block can have (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
pub const OF_MULTIPROCESSOR: u32 = 65_536;

/// Warpgroups of a block that multiply; one brings slices.
const CONSUMERS: u32 = 2;

/// Registers are handed out to warps in units of so many a thread.
pub const UNIT: u32 = 8;

/// What each thread of such a block is launched with, of which there is one on a multiprocessor: 168.
const LAUNCHED: u32 =
    OF_MULTIPROCESSOR / ((1 + CONSUMERS) * cuda_std::wgmma::THREADS) / UNIT * UNIT;

/// Registers of a producer and of a consumer, in a block of one warpgroup that brings slices and two that multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Of a producer.
    pub producer: u32,
    /// Of a consumer.
    pub consumer: u32,
}

impl Registers {
    /// So many of each, in all no more than the block was launched with.
    ///
    /// # Panics
    /// If they are more: the last consumers would wait for ever. That is when it is compiled, since it is asked for in
    /// constants.
    pub const fn new(producer: u32, consumer: u32) -> Self {
        let taken = producer + CONSUMERS * consumer;
        assert!(taken <= (1 + CONSUMERS) * LAUNCHED, "nobody gives up what consumers take");
        assert!(producer <= LAUNCHED && LAUNCHED <= consumer, "producers give up, consumers take");
        Registers { producer, consumer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_what_it_was_launched_with() {
        assert_eq!(LAUNCHED, 168);
        assert_eq!(Registers::new(24, 240), Registers { producer: 24, consumer: 240 });
    }

    #[test]
    #[should_panic(expected = "nobody gives up what consumers take")]
    fn no_block_has_more() {
        Registers::new(32, 240);
    }
}
