//! The grammar of `PYTORCH_CUDA_ALLOC_CONF`: `key:value[,key:value]…`, spaces ignored.
//!
//! Differs from PyTorch: a number is decimal digits and nothing else, where `std::stoull` takes `20.5` for 20
//! and wraps `-5`; a reserve that is none is refused, where PyTorch warns and goes on; what PyTorch refuses
//! by an internal assertion is an error like any other.

use super::tokenizer::{Tokens, fail};
use super::{Backend, Config, Placement, Reserve, RoundupPower2Divisions, mib};
use crate::alloc::size::{LARGE_SEGMENT_SIZE, MIB};
use crate::error::Result;

pub(super) fn apply(base: &Config, text: &str) -> Result<Config> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut config = Config {
        max_split_size: None,
        max_non_split_rounding_size: LARGE_SEGMENT_SIZE,
        large_segment_size: LARGE_SEGMENT_SIZE,
        garbage_collection_threshold: 0.0,
        roundup_power2_divisions: RoundupPower2Divisions::OFF,
        ..base.clone()
    };
    // The sizes of other settings are checked against it, wherever it stands.
    scan_large_segment_size(&mut config, &text)?;
    let mut tokens = Tokens::new(&text);
    while let Some(key) = tokens.next() {
        parse_key(&mut config, key, &mut tokens)?;
        if tokens.peek().is_some() {
            tokens.expect(",", key)?;
        }
    }
    Ok(config)
}

fn scan_large_segment_size(config: &mut Config, text: &str) -> Result<()> {
    let mut tokens = Tokens::new(text);
    while let Some(key) = tokens.next() {
        if key == "large_segment_size_mb" {
            tokens.expect(":", key)?;
            let size = megabytes(key, tokens.value(key)?)?;
            if size <= 10 * MIB {
                return Err(fail("CachingAllocator option large_segment_size_mb must be > 10 MB".into()));
            }
            config.large_segment_size = size;
            config.max_non_split_rounding_size = size;
        }
    }
    Ok(())
}

fn parse_key(config: &mut Config, key: &str, tokens: &mut Tokens<'_>) -> Result<()> {
    if !is_key(key) {
        return Err(fail(format!("Unrecognized key '{key}' in CUDA allocator config.")));
    }
    tokens.expect(":", key)?;
    match key {
        "backend" => config.backend = backend(tokens.value(key)?)?,
        "placement" => config.placement = placement(tokens.value(key)?)?,
        "max_split_size_mb" => config.max_split_size = Some(segment_or_more(config, key, tokens)?),
        "max_non_split_rounding_mb" => {
            config.max_non_split_rounding_size = segment_or_more(config, key, tokens)?
        }
        "large_segment_size_mb" => drop(tokens.value(key)?), // The scan has taken it.
        "garbage_collection_threshold" => {
            let value = real(key, tokens.value(key)?)?;
            if !(value > 0.0 && value < 1.0) {
                return Err(fail("garbage_collect_threshold is invalid, set it in (0.0, 1.0)".into()));
            }
            config.garbage_collection_threshold = value;
        }
        "roundup_power2_divisions" => config.roundup_power2_divisions = divisions(tokens)?,
        "expandable_segments" => config.expandable_segments = boolean(key, tokens.value(key)?)?,
        "expandable_segments_reserve" => {
            config.expandable_segments_reserve = Some(reserve(key, tokens.value(key)?)?);
        }
        "expandable_segments_reserve_by_class" => {
            config.expandable_segments_reserve_by_class = reserves(key, tokens)?;
        }
        "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
            config.release_lock_on_malloc = boolean(key, tokens.value(key)?)?;
        }
        "per_process_memory_fraction" => {
            let value = real(key, tokens.value(key)?)?;
            if !(0.0..=1.0).contains(&value) {
                return Err(fail("per_process_memory_fraction is invalid, set it in [0.0, 1.0]".into()));
            }
            config.per_process_memory_fraction = value;
        }
        "throw_on_cudamalloc_oom" => config.throw_on_malloc_oom = boolean(key, tokens.value(key)?)?,
        "graph_capture_record_stream_reuse" => {
            config.graph_capture_record_stream_reuse = boolean(key, tokens.value(key)?)?;
        }
        _ => pinned(config, key, tokens.value(key)?)?,
    }
    Ok(())
}

fn is_key(key: &str) -> bool {
    matches!(
        key,
        "backend"
            | "placement"
            | "max_split_size_mb"
            | "max_non_split_rounding_mb"
            | "large_segment_size_mb"
            | "garbage_collection_threshold"
            | "roundup_power2_divisions"
            | "expandable_segments"
            | "expandable_segments_reserve"
            | "expandable_segments_reserve_by_class"
            | "release_lock_on_cudamalloc"
            | "release_lock_on_hipmalloc"
            | "per_process_memory_fraction"
            | "throw_on_cudamalloc_oom"
            | "graph_capture_record_stream_reuse"
            | "pinned_use_cuda_host_register"
            | "pinned_use_hip_host_register"
            | "pinned_num_register_threads"
            | "pinned_use_background_threads"
            | "pinned_reserve_segment_size_mb"
            | "pinned_max_round_threshold_mb"
            | "pinned_max_cached_size_mb"
            | "pinned_free_catch_all"
    )
}

fn pinned(config: &mut Config, key: &str, value: &str) -> Result<()> {
    let pinned = &mut config.pinned;
    match key {
        "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => {
            pinned.use_host_register = boolean(key, value)?;
        }
        "pinned_num_register_threads" => {
            let threads = whole(key, value)?;
            if !threads.is_power_of_two() {
                return Err(fail(format!("Number of register threads has to be power of 2, got {threads}")));
            }
            if threads > 128 {
                return Err(fail(format!(
                    "Number of register threads should be less than or equal to 128, got {threads}"
                )));
            }
            pinned.num_register_threads = threads;
        }
        "pinned_use_background_threads" => pinned.use_background_threads = boolean(key, value)?,
        "pinned_reserve_segment_size_mb" => pinned.reserve_segment_size = megabytes(key, value)?,
        "pinned_max_round_threshold_mb" => pinned.max_round_threshold = Some(megabytes(key, value)?),
        "pinned_max_cached_size_mb" => pinned.max_cached_size = Some(megabytes(key, value)?),
        "pinned_free_catch_all" => pinned.free_catch_all = boolean(key, value)?,
        _ => return Err(fail(format!("Unrecognized key '{key}' in CUDA allocator config."))),
    }
    Ok(())
}

fn backend(value: &str) -> Result<Backend> {
    match value {
        "native" => Ok(Backend::Native),
        "cudaMallocAsync" => Ok(Backend::CudaMallocAsync),
        _ => Err(fail("Unknown allocator backend, options are native and cudaMallocAsync".into())),
    }
}

fn placement(value: &str) -> Result<Placement> {
    match value {
        "exact" => Ok(Placement::Exact),
        "stitched" => Ok(Placement::Stitched),
        _ => Err(fail(format!("Unknown placement '{value}', options are exact and stitched"))),
    }
}

/// A size in MB that is at least that of a large segment.
fn segment_or_more(config: &Config, key: &str, tokens: &mut Tokens<'_>) -> Result<u64> {
    let size = megabytes(key, tokens.value(key)?)?;
    if size < config.large_segment_size {
        let least = config.large_segment_size / MIB;
        return Err(fail(format!("CachingAllocator option {key} too small, must be >= {least}")));
    }
    Ok(size)
}

/// A part of the device's memory, or a size in GiB such as `64G`.
fn reserve(key: &str, value: &str) -> Result<Reserve> {
    if let Some(gibibytes) = value.strip_suffix(['G', 'g']) {
        let bytes = real(key, gibibytes)? * (1024 * MIB) as f64;
        if !(bytes >= 1.0 && bytes < u64::MAX as f64) {
            return Err(fail(format!("'{key}' of {value} is no number of bytes from 1 to 2^64")));
        }
        return Ok(Reserve::Bytes(bytes as u64));
    }
    match real(key, value)? {
        part if part > 0.0 => Ok(Reserve::Fraction(part)),
        _ => Err(fail(format!("'{key}' takes a fraction above 0 or a size such as 64G, not '{value}'"))),
    }
}

/// `[name:reserve,…]`.
fn reserves(key: &str, tokens: &mut Tokens<'_>) -> Result<Vec<(String, Reserve)>> {
    tokens.expect("[", key)?;
    let mut list = Vec::new();
    while !tokens.accept("]") {
        let name = tokens.value(key)?;
        tokens.expect(":", name)?;
        list.push((name.to_owned(), reserve(key, tokens.value(key)?)?));
        if tokens.peek() != Some("]") {
            tokens.expect(",", "an entry of expandable_segments_reserve_by_class")?;
        }
    }
    Ok(list)
}

/// A number for every interval, or a list `[size:number,…,>:number]`. The first entry of a list fills all
/// intervals up to its own, each later one its own, and `>` those after the last; gaps stay off.
fn divisions(tokens: &mut Tokens<'_>) -> Result<RoundupPower2Divisions> {
    const KEY: &str = "roundup_power2_divisions";
    if !tokens.accept("[") {
        let all = whole(KEY, tokens.value(KEY)?)?;
        if !all.is_power_of_two() {
            return Err(fail("For roundups, the divisions has to be power of 2 ".into()));
        }
        return Ok(checked([all; RoundupPower2Divisions::INTERVALS]));
    }
    let mut table = [0; RoundupPower2Divisions::INTERVALS];
    let mut last = None;
    while !tokens.accept("]") {
        let size = tokens.value(KEY)?;
        tokens.expect(":", size)?;
        let parts = whole(KEY, tokens.value(KEY)?)?;
        if parts != 0 && !parts.is_power_of_two() {
            return Err(fail(
                "For roundups, the divisions has to be power of 2 or 0 to disable roundup ".into(),
            ));
        }
        if size == ">" {
            table[last.unwrap_or(0) + 1..].fill(parts);
        } else {
            let index = interval(whole(KEY, size)?)?;
            match last {
                None => table[..=index].fill(parts),
                Some(_) => table[index] = parts,
            }
            last = Some(index);
        }
        if tokens.peek() != Some("]") {
            tokens.expect(",", "an entry of roundup_power2_divisions")?;
        }
    }
    Ok(checked(table))
}

fn checked(table: [u64; RoundupPower2Divisions::INTERVALS]) -> RoundupPower2Divisions {
    RoundupPower2Divisions::new(table).expect("each entry was seen to be 0 or a power of two")
}

fn interval(mebibytes: u64) -> Result<usize> {
    if !mebibytes.is_power_of_two() {
        return Err(fail("For roundups, the intervals have to be power of 2 ".into()));
    }
    Ok((mebibytes.ilog2() as usize).min(RoundupPower2Divisions::INTERVALS - 1))
}

fn whole(key: &str, value: &str) -> Result<u64> {
    let digits = value.bytes().all(|b| b.is_ascii_digit());
    let number = if digits { value.parse().ok() } else { None };
    number.ok_or_else(|| fail(format!("'{key}' takes a whole number up to {}, not '{value}'", u64::MAX)))
}

fn megabytes(key: &str, value: &str) -> Result<u64> {
    let size = whole(key, value)?;
    mib(size).ok_or_else(|| fail(format!("'{key}' of {size} MB is more bytes than 64 bits can count")))
}

fn real(key: &str, value: &str) -> Result<f64> {
    let number = value.parse::<f64>().ok().filter(|x| x.is_finite());
    number.ok_or_else(|| fail(format!("'{key}' takes a number, not '{value}'")))
}

fn boolean(key: &str, value: &str) -> Result<bool> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(fail(format!("Expected 'True' or 'False' for '{key}' but got '{value}'"))),
    }
}
