//! Random allocator configurations, in the grammar of `PYTORCH_ALLOC_CONF`.

use super::random::Random;

/// The settings that a trace varies. Those that are `None` keep their defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conf {
    pub(crate) large_segment_mb: Option<u64>,
    pub(crate) max_split_mb: Option<u64>,
    pub(crate) max_non_split_rounding_mb: Option<u64>,
    /// The value as text: one number, or a list.
    pub(crate) roundup_divisions: Option<String>,
    /// Below 1, as text.
    pub(crate) garbage_collection_threshold: Option<String>,
    /// Requests beyond this part of the device's memory are refused before the driver is asked; as text.
    pub(crate) refused_beyond: Option<String>,
    pub(crate) switches: Switches,
}

/// What is on or off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Switches {
    pub(crate) expandable: bool,
    pub(crate) reuse: bool,
    pub(crate) release_lock: bool,
    pub(crate) asynchronous: bool,
}

impl Conf {
    /// Draws a configuration: in equal parts the defaults, each setting alone, and several together.
    pub(crate) fn draw(random: &mut Random) -> Conf {
        let mut conf = Conf::default();
        let which = random.below(9);
        let several = which == 8;
        let has = |number: u64, random: &mut Random| which == number || (several && random.percent(60));
        if has(1, random) {
            conf.large_segment_mb = Some(random.one_of(&[11, 12, 15, 20, 21, 32, 64, 100]));
        }
        let least = conf.large_segment_mb.unwrap_or(20);
        // Rounding without splitting means something only for blocks that a split limit leaves whole.
        let rounding = has(2, random);
        if rounding || has(3, random) {
            conf.max_split_mb = Some(least + random.one_of(&[0, 0, 1, 2, 4, 12, 44, 180]));
        }
        if rounding {
            conf.max_non_split_rounding_mb = Some(least + random.one_of(&[0, 1, 5, 20, 64, 200]));
        }
        if has(4, random) {
            conf.roundup_divisions = Some(random.one_of(&[1, 2, 4, 8, 16, 64]).to_string());
        }
        if has(5, random) {
            conf.roundup_divisions = Some(divisions_list(random));
        }
        if has(6, random) {
            let some = ["0.01", "0.2", "0.5", "0.7", "0.8", "0.9", "0.99"];
            conf.garbage_collection_threshold = Some(some[random.index(some.len())].to_owned());
        }
        if has(7, random) {
            let some = ["0.0", "0.1", "0.3", "0.5", "0.75", "0.9", "1.0"];
            conf.refused_beyond = Some(some[random.index(some.len())].to_owned());
        }
        conf
    }

    /// Reads what a given configuration says of these settings; it need not be a valid one.
    pub(crate) fn read(text: &str) -> Conf {
        let value = |key: &str| {
            let (_, rest) = text.split_once(&format!("{key}:"))?;
            let end = if rest.starts_with('[') { rest.find(']').map(|end| end + 1) } else { rest.find(',') };
            Some(rest[..end.unwrap_or(rest.len())].trim().to_owned())
        };
        let megabytes = |key: &str| value(key)?.parse().ok();
        let is_on = |key: &str| value(key).is_some_and(|value| value == "True");
        Conf {
            large_segment_mb: megabytes("large_segment_size_mb"),
            max_split_mb: megabytes("max_split_size_mb"),
            max_non_split_rounding_mb: megabytes("max_non_split_rounding_mb"),
            roundup_divisions: value("roundup_power2_divisions"),
            garbage_collection_threshold: value("garbage_collection_threshold"),
            refused_beyond: value("per_process_memory_fraction"),
            switches: Switches {
                expandable: is_on("expandable_segments"),
                reuse: is_on("graph_capture_record_stream_reuse"),
                release_lock: is_on("release_lock_on_cudamalloc"),
                asynchronous: value("backend").is_some_and(|name| name == "cudaMallocAsync"),
            },
        }
    }

    /// The settings in order, as `key:value`.
    pub(crate) fn settings(&self) -> Vec<String> {
        let megabytes = |key: &str, value: Option<u64>| value.map(|value| format!("{key}:{value}"));
        let all = [
            megabytes("large_segment_size_mb", self.large_segment_mb),
            megabytes("max_split_size_mb", self.max_split_mb),
            megabytes("max_non_split_rounding_mb", self.max_non_split_rounding_mb),
            self.roundup_divisions.as_ref().map(|value| format!("roundup_power2_divisions:{value}")),
            self.garbage_collection_threshold
                .as_ref()
                .map(|value| format!("garbage_collection_threshold:{value}")),
        ];
        let refusal = self.refused_beyond.iter().flat_map(|fraction| {
            [format!("per_process_memory_fraction:{fraction}"), "throw_on_cudamalloc_oom:True".to_owned()]
        });
        let switches = [
            (self.switches.expandable, "expandable_segments:True"),
            (self.switches.reuse, "graph_capture_record_stream_reuse:True"),
            (self.switches.release_lock, "release_lock_on_cudamalloc:True"),
            (self.switches.asynchronous, "backend:cudaMallocAsync"),
        ];
        let switches = switches.into_iter().filter(|(on, _)| *on).map(|(_, setting)| setting.to_owned());
        all.into_iter().flatten().chain(refusal).chain(switches).collect()
    }
}

/// A list such as `[1:8,64:2,>:0]`: sizes in MB that are powers of two, most often rising.
fn divisions_list(random: &mut Random) -> String {
    let mut exponents: Vec<u64> = (0..random.between(1, 4)).map(|_| random.below(11)).collect();
    if random.percent(80) {
        exponents.sort_unstable();
        exponents.dedup();
    }
    let division = |random: &mut Random| random.one_of(&[0, 1, 2, 4, 8, 16]);
    let mut entries: Vec<String> =
        exponents.iter().map(|exponent| format!("{}:{}", 1_u64 << exponent, division(random))).collect();
    if random.percent(60) {
        entries.push(format!(">:{}", division(random)));
    }
    format!("[{}]", entries.join(","))
}
