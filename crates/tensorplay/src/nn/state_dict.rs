//! State dicts: names and tensors compared with those of a module, copied into it, and kept in safetensors files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use aten::io::safetensors::{self, SafeTensors};
use aten::{Error, ErrorKind, Result, Tensor};
use tensorplay_autograd::no_grad;

/// Writes the tensors of `state` over those of `own`, once all of them fit.
pub(crate) fn load(own: &[(String, Tensor)], state: &[(String, Tensor)]) -> Result<()> {
    let pairs = matched(own, state)?;
    no_grad(|| {
        // What cannot be converted is refused before anything is written.
        let convert = |(to, from): (_, &Tensor)| -> Result<(&Tensor, Tensor)> {
            let to: &Tensor = to;
            Ok((to, from.to((to.dtype(), to.device()))?))
        };
        let converted = pairs.into_iter().map(convert).collect::<Result<Vec<_>>>()?;
        converted.iter().try_for_each(|(to, from)| to.copy_(from).map(drop))
    })
}

/// Each own tensor with the one of its name.
fn matched<'a>(
    own: &'a [(String, Tensor)],
    state: &'a [(String, Tensor)],
) -> Result<Vec<(&'a Tensor, &'a Tensor)>> {
    let mut given: BTreeMap<&str, &Tensor> = BTreeMap::new();
    let mut faults = Faults::default();
    for (name, tensor) in state {
        if given.insert(name, tensor).is_some() {
            faults.twice.push(format!("{name:?}"));
        }
    }
    let mut pairs = Vec::with_capacity(own.len());
    for (name, to) in own {
        match given.remove(name.as_str()) {
            None => faults.missing.push(format!("{name:?}")),
            Some(from) if from.sizes() != to.sizes() => faults.sizes.push(format!(
                "{name:?} is {:?} in the state dict and {:?} in the module",
                from.sizes(),
                to.sizes()
            )),
            Some(from) => pairs.push((to, from)),
        }
    }
    faults.unexpected.extend(given.into_keys().map(|name| format!("{name:?}")));
    faults.into_result().map(|()| pairs)
}

/// What is wrong with a state dict, by kind of fault.
#[derive(Default)]
struct Faults {
    missing: Vec<String>,
    unexpected: Vec<String>,
    twice: Vec<String>,
    sizes: Vec<String>,
}

impl Faults {
    fn into_result(self) -> Result<()> {
        let kinds = [
            ("missing", self.missing),
            ("not expected", self.unexpected),
            ("there twice", self.twice),
            ("of other sizes", self.sizes),
        ];
        let told: Vec<String> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| format!("{kind}: {}", names.join(", ")))
            .collect();
        if told.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("the state dict does not fit the module: {}", told.join("; "))))
    }
}

/// Writes a safetensors file.
pub(crate) fn save(path: &Path, state: &[(String, Tensor)]) -> Result<()> {
    save_with(path, state, &BTreeMap::new())
}

/// Writes a safetensors file with what it says about itself.
pub(crate) fn save_with(
    path: &Path,
    state: &[(String, Tensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    // Under another name first, so that a file of that name stays whole when the new one cannot be written.
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let file = File::create(partial).map_err(|error| io_error("made", partial, error))?;
    let tensors = state.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let written = safetensors::write(&mut BufWriter::new(file), tensors, metadata)
        .and_then(|()| fs::rename(partial, path).map_err(|error| io_error("replaced", path, error)));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(partial);
    }
    written
}

/// Reads a safetensors file.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let file = read_file(path)?;
    Ok(file.iter().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect())
}

/// Reads a safetensors file, with what it says about itself.
pub(crate) fn read_file(path: &Path) -> Result<SafeTensors> {
    let bytes = fs::read(path).map_err(|error| io_error("read", path, error))?;
    SafeTensors::from_bytes(&bytes)
}

#[cold]
fn io_error(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be {what}: {error}", path.display())).with_source(error)
}
