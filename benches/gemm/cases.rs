//! What is measured: the one table of cases.

use regemm_report::versus::{Case, Group, Layouts};

/// Squares whose size is a power of two.
pub const SQUARES: [usize; 7] = [256, 512, 1024, 2048, 4096, 8192, 16384];

/// Squares between those: how their tiles come out on the multiprocessors differs from one to the next, and rows of
/// 1000, 3000 and 5000 elements are no whole sectors of the L2 cache in half precision.
pub const BETWEEN: [usize; 8] = [1000, 1536, 2176, 2560, 3000, 3328, 5000, 6144];

/// Squares off by one, and a prime: rows are no multiples of 16 bytes, and no tile divides them.
pub const ODD: [usize; 5] = [1023, 2047, 4095, 4097, 5003];

/// Rows, columns and depth of products that are not square.
pub const RECTANGLES: [(usize, usize, usize); 11] = [
    // Skinny: one operand is read once, and memory is the wall.
    (1, 8192, 8192),
    (16, 4096, 4096),
    (64, 4096, 4096),
    (8192, 1, 8192),
    // Narrow: one tile covers all columns.
    (8192, 128, 8192),
    // Flat: the result is larger than what it is made of.
    (4096, 4096, 64),
    (8192, 8192, 128),
    // Deep: few elements of D, each a long sum.
    (128, 128, 65536),
    (256, 256, 16384),
    (1024, 1024, 16384),
    // Odd in all directions.
    (4095, 4097, 4093),
];

/// Rows, columns and depth of products of activations, a row a token, with the weights of a transformer of 8 billion
/// parameters (4096 wide, 14336 within): its first projection, both of its feed-forward layers, for one token, for
/// those of some requests at once, and for a prompt. Weights are stored a row an output, as PyTorch and most files of
/// them have it: NT.
pub const LAYERS: [(usize, usize, usize); 12] = [
    (1, 6144, 4096),
    (1, 28672, 4096),
    (1, 4096, 14336),
    (16, 6144, 4096),
    (16, 28672, 4096),
    (16, 4096, 14336),
    (256, 6144, 4096),
    (256, 28672, 4096),
    (256, 4096, 14336),
    (4096, 6144, 4096),
    (4096, 28672, 4096),
    (4096, 4096, 14336),
];

/// The same for prompts and for requests of any number, which fill no whole tiles, and the output of its attention.
pub const TOKENS: [usize; 5] = [100, 200, 333, 777, 1500];
pub const LAYERS_OF_TOKENS: [(usize, usize); 4] =
    [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)];

/// Squares that are measured in the other layouts too.
pub const TRANSPOSED: [usize; 2] = [1024, 4096];

/// Numbers of products in a batch, and the size of each.
pub const BATCHES: [(usize, usize); 4] = [(64, 256), (512, 256), (128, 512), (16, 1024)];

/// The squares that are measured with C added, too.
pub const WITH_ADDEND: [usize; 3] = [1024, 4096, 8192];

/// The square on which the epilogue is measured.
pub const EPILOGUE_SIZE: usize = 4096;

/// The cases of some groups. Sizes, where some are given, take the place of those of the squares, the layouts, those
/// with an addend and the epilogue, and shapes that of the rectangles, the layers and those of tokens.
pub fn cases(groups: &[Group], sizes: &[usize], shapes: &[[usize; 3]]) -> Vec<Case> {
    let or_given = |own: &[usize]| if sizes.is_empty() { own.to_vec() } else { sizes.to_vec() };
    let or_shapes = |own: &[(usize, usize, usize)]| {
        let shapes = shapes.iter().map(|&[m, n, k]| (m, n, k));
        if shapes.len() == 0 { own.to_vec() } else { shapes.collect() }
    };
    let square = |group, size| Case::of(group, (size, size, size));
    let of_group = |group: Group| -> Vec<Case> {
        match group {
            Group::Squares => {
                or_given(&SQUARES).into_iter().map(|size| square(group, size)).collect()
            }
            Group::Between => BETWEEN.into_iter().map(|size| square(group, size)).collect(),
            Group::Odd => ODD.into_iter().map(|size| square(group, size)).collect(),
            Group::Rectangles => {
                or_shapes(&RECTANGLES).into_iter().map(|shape| Case::of(group, shape)).collect()
            }
            Group::Layers => or_shapes(&LAYERS)
                .into_iter()
                .map(|shape| Case { layouts: Layouts::Nt, ..Case::of(group, shape) })
                .collect(),
            Group::Tokens => {
                let of = |tokens| LAYERS_OF_TOKENS.map(|(n, k)| (tokens, n, k));
                let all: Vec<_> = TOKENS.into_iter().flat_map(of).collect();
                let with_weights = |shape| Case { layouts: Layouts::Nt, ..Case::of(group, shape) };
                or_shapes(&all).into_iter().map(with_weights).collect()
            }
            Group::Layouts => or_given(&TRANSPOSED)
                .into_iter()
                .flat_map(|size| {
                    [Layouts::Nt, Layouts::Tn, Layouts::Tt]
                        .map(|layouts| Case { layouts, ..square(group, size) })
                })
                .collect(),
            Group::Batched => BATCHES
                .into_iter()
                .map(|(batch, size)| Case { batch, ..square(group, size) })
                .collect(),
            Group::Addend => {
                or_given(&WITH_ADDEND).into_iter().map(|size| square(group, size)).collect()
            }
            Group::Epilogue => {
                or_given(&[EPILOGUE_SIZE]).into_iter().map(|size| square(group, size)).collect()
            }
        }
    };
    Group::ALL.into_iter().filter(|group| groups.contains(group)).flat_map(of_group).collect()
}
