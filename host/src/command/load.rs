//! Reads NumPy files. Whatever is wrong with one is said in one line, with what to do about it.

use super::exit::Failure;
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use npyz::{DType, NpyFile, NpyHeader, Order, TypeChar};
use regemm::verify::check_room;
use regemm::{Dtype, Element, f16};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The array in a file.
pub enum Loaded {
    /// NumPy's `float32`.
    F32(ArrayD<f32>),
    /// NumPy's `float64`.
    F64(ArrayD<f64>),
    /// NumPy's `float16`.
    F16(ArrayD<f16>),
}

/// An element type that NumPy has too.
pub trait Stored: Element + npyz::Deserialize + npyz::Serialize + npyz::AutoSerialize {
    /// The array, if it is of this type.
    fn take(loaded: Loaded) -> Option<ArrayD<Self>>;
}

macro_rules! stored {
    ($($t:ident: $variant:ident),*) => {$(
        impl Stored for $t {
            fn take(loaded: Loaded) -> Option<ArrayD<Self>> {
                match loaded {
                    Loaded::$variant(array) => Some(array),
                    _ => None,
                }
            }
        }
    )*};
}
stored!(f32: F32, f64: F64, f16: F16);

impl Loaded {
    /// The element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Loaded::F32(_) => Dtype::F32,
            Loaded::F64(_) => Dtype::F64,
            Loaded::F16(_) => Dtype::F16,
        }
    }
}

/// The refusal of `-`, which other programs take for standard input.
pub fn no_hyphen() -> Failure {
    Failure::Usage("`-` names no file here: name /dev/stdin, or ./- for a file of that name".into())
}

/// NumPy's name of an element type.
pub fn numpy_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
    }
}

/// Magic string and version number.
const MAGIC: &[u8] = b"\x93NUMPY";
const MAGIC_AND_VERSION: usize = MAGIC.len() + 2;

/// No header of a plain array comes near this; a larger one is damage.
const LONGEST_HEADER: usize = 1 << 16;

/// Brackets within brackets in the header of a plain array: the dictionary and the shape.
const DEEPEST_HEADER: usize = 2;

/// Reads the array of a `.npy` file: float32, float64 or float16 of either byte order, in C or Fortran order.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    if path == Path::new("-") {
        return Err(no_hyphen());
    }
    let failure = |problem: String| Failure::file(path, problem);
    let file = File::open(path).map_err(|error| failure(cannot_open(&error)))?;
    let metadata = file.metadata().map_err(|error| failure(cannot_open(&error)))?;
    if metadata.is_dir() {
        return Err(failure("is a folder; name a .npy file".into()));
    }
    // Pipes have no length.
    let length = metadata.is_file().then_some(metadata.len());

    let mut reader = BufReader::new(file);
    let (header, header_bytes) = read_header(&mut reader).map_err(failure)?;
    let dtype = dtype(&header.dtype()).map_err(failure)?;
    let data_bytes = header
        .shape()
        .iter()
        .try_fold(dtype.bytes() as u64, |bytes, &len| bytes.checked_mul(len))
        .ok_or_else(|| failure("damaged: its header states an impossible shape".into()))?;
    if let Some(length) = length {
        let data_in_file = length.saturating_sub(header_bytes);
        if data_in_file < data_bytes {
            return Err(failure(truncated(&format!("{data_in_file} of {data_bytes} bytes"))));
        }
        if data_in_file > data_bytes {
            return Err(failure(trailing(&format!("{} bytes", data_in_file - data_bytes))));
        }
    }
    check_room(usize::try_from(data_bytes).ok())?;
    let loaded = match dtype {
        Dtype::F32 => read_data(header, &mut reader).map(Loaded::F32),
        Dtype::F64 => read_data(header, &mut reader).map(Loaded::F64),
        Dtype::F16 | Dtype::Bf16 => read_data(header, &mut reader).map(Loaded::F16),
    };
    let loaded = loaded.map_err(|error| failure(cannot_read(&error)))?;
    match reader.read(&mut [0]) {
        Ok(0) => Ok(loaded),
        Ok(_) => Err(failure(trailing("more data"))),
        Err(error) => Err(failure(cannot_read(&error))),
    }
}

/// The header and how many bytes it takes, magic string included.
fn read_header(reader: &mut impl Read) -> Result<(NpyHeader, u64), String> {
    let mut bytes = Vec::new();
    let mut take = |bytes: &mut Vec<u8>, count: usize| {
        let start = bytes.len();
        let read = reader.by_ref().take(count as u64).read_to_end(bytes);
        match read.map_err(|error| cannot_read(&error))? {
            read if read == count => Ok(start),
            _ if start == 0 && bytes.is_empty() => Err("is empty".to_owned()),
            _ if start == 0 => Err(not_numpy(bytes)),
            _ => Err(truncated("only a part of its header")),
        }
    };
    take(&mut bytes, MAGIC_AND_VERSION)?;
    if !bytes.starts_with(MAGIC) {
        return Err(not_numpy(&bytes));
    }
    let length_bytes = match bytes[MAGIC.len()] {
        1 => 2,
        2 | 3 => 4,
        version => {
            return Err(format!(
                "damaged, or of version {version} of the format, and known are 1 to 3; save it again"
            ));
        }
    };
    let start = take(&mut bytes, length_bytes)?;
    let length =
        bytes[start..].iter().rev().fold(0usize, |length, &byte| length << 8 | usize::from(byte));
    if length > LONGEST_HEADER {
        return Err(format!("damaged: its header claims {length} bytes"));
    }
    let start = take(&mut bytes, length)?;
    check_header_text(&bytes[start..])?;
    // The parser's own message is several lines of grammar.
    let header = NpyHeader::from_reader(&bytes[..])
        .map_err(|_| "damaged: its header does not describe an array; save it again".to_owned())?;
    Ok((header, bytes.len() as u64))
}

/// Refuses what the parser of headers is not made for: deep nesting, and shapes whose product overflows.
fn check_header_text(text: &[u8]) -> Result<(), String> {
    let mut depth = 0usize;
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_HEADER {
            return Err(NO_PLAIN_NUMBERS.to_owned());
        }
    }
    let numbers = text.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut product = 1u64;
    for digits in numbers {
        // Digits of the type string count too; they are few.
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        product = number
            .and_then(|number| product.checked_mul(number.max(1)))
            .ok_or("damaged: its header states an impossible shape")?;
    }
    Ok(())
}

const NO_PLAIN_NUMBERS: &str =
    "its elements are no plain numbers; save one field as np.float32, np.float64 or np.float16";

/// The element type, if it is one that can be multiplied.
fn dtype(dtype: &DType) -> Result<Dtype, String> {
    let DType::Plain(plain) = dtype else {
        return Err(NO_PLAIN_NUMBERS.to_owned());
    };
    match (plain.type_char(), plain.size_field()) {
        (TypeChar::Float, 2) => Ok(Dtype::F16),
        (TypeChar::Float, 4) => Ok(Dtype::F32),
        (TypeChar::Float, 8) => Ok(Dtype::F64),
        (TypeChar::Object, _) => Err("holds pickled Python objects; save x.astype(np.float32) \
                                      with allow_pickle=False"
            .into()),
        (TypeChar::Complex, _) => Err(format!(
            "holds complex numbers of type '{plain}', which cannot be multiplied; save real and imaginary parts apart, \
                 as x.real.astype(np.float32)"
        )),
        // What NumPy calls the bfloat16 of other libraries, whose name it does not keep.
        (TypeChar::RawData, 2) => Err(format!(
            "holds elements of type '{plain}', which NumPy does not know; if they are bfloat16, save \
             x.astype(np.float32) and add --as bf16"
        )),
        _ => Err(format!(
            "holds elements of type '{plain}', but only float32, float64 and float16 can be \
             multiplied; save x.astype(np.float32)"
        )),
    }
}

fn read_data<T: Stored>(header: NpyHeader, reader: impl Read) -> io::Result<ArrayD<T>> {
    let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let shape: Vec<usize> = header
        .shape()
        .iter()
        .map(|&len| usize::try_from(len).map_err(too_large))
        .collect::<Result<_, _>>()?;
    let fortran = header.order() == Order::Fortran;
    // Collected as they come they would take up to twice their room, and more while they are moved.
    let mut data = Vec::with_capacity(shape.iter().product());
    let elements = NpyFile::with_header(header, reader).data::<T>();
    for element in elements.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
        data.push(element?);
    }
    ArrayD::from_shape_vec(IxDyn(&shape).set_f(fortran), data)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Why a file cannot be opened.
pub fn cannot_open(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "no permission to read it".into(),
        io::ErrorKind::IsADirectory => "is a folder; name a file in it".into(),
        _ => format!("cannot be opened: {error}"),
    }
}

fn cannot_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated("less data than its header says"),
        _ => format!("cannot be read: {error}"),
    }
}

fn truncated(what: &str) -> String {
    format!("truncated: it holds {what}; copy or save it again")
}

fn trailing(what: &str) -> String {
    format!("{what} follow the array; a .npy file holds one array, so save each in its own")
}

fn not_numpy(start: &[u8]) -> String {
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        "is an .npz archive; save the array by itself: np.save('x.npy', np.load(file)['name'])"
            .into()
    } else {
        "is not a NumPy file; np.save writes one".into()
    }
}
