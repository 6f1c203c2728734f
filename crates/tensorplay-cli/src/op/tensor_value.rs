//! [`TensorValue`]: a recorded tensor, whole and checked.

use c10_core::ScalarType;
use serde_json::{Map, Value as Json};

use super::elements::{self, Number};

/// So many elements has a recorded tensor at most; expanded ones have more elements than data.
const MOST_ELEMENTS: usize = 1 << 26;

/// A tensor as it is written in a case: sizes, strides and the storage under them.
///
/// Sizes and strides are not negative, and each element lies in the data, if there are data.
#[derive(Clone, Debug)]
pub(super) struct TensorValue {
    pub(super) dtype: ScalarType,
    pub(super) sizes: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// Where in the data the first element is, in elements.
    pub(super) offset: usize,
    /// The bytes of the storage; `None` when values are not to be compared.
    pub(super) data: Option<Vec<u8>>,
    /// Whether the lazy conjugate bit was set. The data are conjugated already.
    pub(super) is_conj: bool,
    /// Whether the lazy negative bit was set. The data are negated already.
    pub(super) is_neg: bool,
}

impl TensorValue {
    /// Reads what stands under the key `t`.
    ///
    /// # Errors
    /// Something is missing, is no element of its type, or lies outside the data.
    pub(super) fn from_json(json: &Json) -> Result<Self, String> {
        let fields = json.as_object().ok_or("a tensor is an object")?;
        let name = fields.get("dtype").and_then(Json::as_str).ok_or("a tensor has a `dtype`")?;
        let dtype: ScalarType = name.parse().map_err(|error: c10_core::Error| error.to_string())?;
        let elements = match fields.get("data") {
            Some(Json::Array(elements)) => Some(elements),
            Some(Json::Null) => None,
            _ => return Err("`data` is an array or null".into()),
        };
        let offset = fields.get("offset").map_or(Some(0), Json::as_u64).and_then(|n| usize::try_from(n).ok());
        let mut tensor = Self {
            dtype,
            sizes: lengths(fields, "size")?,
            strides: lengths(fields, "stride")?,
            offset: offset.ok_or("`offset` is no place in a storage")?,
            data: None,
            is_conj: flag(fields, "conj")?,
            is_neg: flag(fields, "neg")?,
        };
        if tensor.sizes.contains(&0) {
            // It may be said to begin anywhere.
            tensor.offset = 0;
        }
        tensor.check(elements.map(Vec::len))?;
        tensor.data = elements.map(|elements| elements::to_bytes(dtype, elements)).transpose()?;
        Ok(tensor)
    }

    /// The number of elements.
    pub(super) fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// The elements in logical order; `None` without values.
    pub(super) fn elements(&self) -> Option<impl Iterator<Item = Number>> {
        let data = self.data.as_ref()?;
        Some((0..self.numel()).map(move |n| elements::number_at(self.dtype, data, self.place(n))))
    }

    /// Writes the tensor as JSON.
    pub(super) fn write_to(&self, text: &mut String) {
        let lengths = |lengths: &[i64]| lengths.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let Self { dtype, offset, .. } = self;
        let (sizes, strides) = (lengths(&self.sizes), lengths(&self.strides));
        text.push_str(&format!(r#"{{"t":{{"dtype":"{dtype}","size":[{sizes}],"stride":[{strides}],"#));
        text.push_str(&format!(r#""offset":{offset},"data":"#));
        match &self.data {
            Some(data) => elements::write_elements(self.dtype, data, text),
            None => text.push_str("null"),
        }
        for (name, is_set) in [("conj", self.is_conj), ("neg", self.is_neg)] {
            if is_set {
                text.push_str(&format!(r#","{name}":true"#));
            }
        }
        text.push_str("}}");
    }

    /// Where in the data the element of a logical index is.
    fn place(&self, mut n: usize) -> usize {
        let mut place = self.offset;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            let size = size as usize;
            place += n % size * stride as usize;
            n /= size;
        }
        place
    }

    /// Whether the geometry is one, and lies in so many elements of data.
    fn check(&self, len: Option<usize>) -> Result<(), String> {
        let Self { sizes, strides, offset, .. } = self;
        if sizes.len() != strides.len() {
            return Err(format!("sizes {sizes:?} and strides {strides:?} are not equally many"));
        }
        // The sizes without zeros, so that a product cannot hide behind one.
        let numel = sizes.iter().filter(|&&size| size > 0).try_fold(1i64, |n, &size| n.checked_mul(size));
        if numel.is_none_or(|numel| numel > MOST_ELEMENTS as i64) {
            return Err(format!(
                "sizes {sizes:?} are more than the {MOST_ELEMENTS} elements that are read at most"
            ));
        }
        let last = sizes.iter().zip(strides).try_fold(*offset as u128, |last, (&size, &stride)| {
            // An empty tensor has no last element.
            (size > 0).then(|| last + (size as u128 - 1) * stride as u128)
        });
        match (len, last) {
            (Some(len), Some(last)) if last >= len as u128 => Err(format!(
                "sizes {sizes:?} with strides {strides:?} from {offset} reach element {last} of {len} in `data`"
            )),
            _ => Ok(()),
        }
    }
}

fn lengths(fields: &Map<String, Json>, name: &str) -> Result<Vec<i64>, String> {
    let length = |json: &Json| json.as_i64().filter(|&length| length >= 0);
    let lengths = fields.get(name).and_then(Json::as_array);
    let lengths = lengths.and_then(|lengths| lengths.iter().map(length).collect());
    lengths.ok_or_else(|| format!("`{name}` of a tensor is a list of numbers from 0"))
}

fn flag(fields: &Map<String, Json>, name: &str) -> Result<bool, String> {
    match fields.get(name) {
        None => Ok(false),
        Some(Json::Bool(value)) => Ok(*value),
        Some(_) => Err(format!("`{name}` of a tensor is true or false")),
    }
}
