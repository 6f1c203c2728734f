//! The PTX image of the tests' kernels, where there is no GPU to load it: it names the kernels of the host's image with
//! their parameters, it is whole in itself, and NVIDIA's assembler takes it, where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::{Command, Stdio};

use crate::driver_rules::HOST_KERNELS;
use crate::support::say_skipped;

const PTX: &str = include_str!("kernels.ptx");

/// A kernel's text, as far as the checks need it.
struct Entry {
    /// Name and bits of each parameter.
    params: Vec<(String, u32)>,
    /// One instruction, declaration or label each, without the end.
    statements: Vec<String>,
}

/// All before the first kernel, and the kernels by name, in order of the file.
fn parsed() -> (String, Vec<(String, Entry)>) {
    let lines = PTX.lines().map(|line| line.split("//").next().unwrap().trim());
    let text: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = text.join("\n");
    let mut parts = text.split(".visible .entry ");
    let head = parts.next().unwrap().to_owned();
    (head, parts.map(entry).collect())
}

fn entry(text: &str) -> (String, Entry) {
    let (name, rest) = text.split_once('(').unwrap();
    let (params, body) = rest.split_once(')').unwrap();
    let params = params.split(',').map(|param| {
        let words: Vec<&str> = param.split_whitespace().collect();
        let [".param", kind, name] = words[..] else { panic!("{param:?} is no parameter") };
        (name.to_owned(), bits(kind))
    });
    let body = body.trim().strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    // A label ends its line; all else ends with a semicolon.
    let statements = body.replace(":\n", ":;").replace('\n', " ");
    let mut statements: Vec<String> = statements.split(';').map(|line| line.trim().to_owned()).collect();
    assert_eq!(statements.pop().as_deref(), Some(""), "{name}: the last instruction is not ended");
    (name.to_owned(), Entry { params: params.collect(), statements })
}

/// How wide a type is, of which an instruction or a declaration tells the last: `.u64`, `ld.param.f32`.
fn bits(kind: &str) -> u32 {
    let digits = kind.rsplit(['u', 'b', 'f', 's']).next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("{kind:?} says no width"))
}

#[test]
fn it_is_for_every_device_that_is_in_use() {
    let (head, _) = parsed();
    assert_eq!(head.trim(), ".version 7.0\n.target sm_52\n.address_size 64");
}

#[test]
fn it_has_the_kernels_of_the_host_with_their_parameters() {
    let of_host = std::str::from_utf8(HOST_KERNELS).unwrap();
    let of_host: BTreeMap<String, Vec<u32>> = of_host
        .lines()
        .skip(1)
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap().to_owned();
            (name, words.map(|bytes| bytes.parse::<u32>().unwrap() * 8).collect())
        })
        .collect();
    let (_, entries) = parsed();
    let of_device = entries.into_iter().map(|(name, entry)| {
        let widths = entry.params.into_iter().map(|(_, bits)| bits);
        (name, widths.collect())
    });
    assert_eq!(of_device.collect::<BTreeMap<_, _>>(), of_host);
}

#[test]
fn each_kernel_reads_every_parameter_once_and_as_it_is() {
    for (kernel, entry) in parsed().1 {
        let read = entry.statements.iter().filter_map(|statement| {
            let (load, of) = statement.split_once(" ")?;
            let param = of.split_once('[')?.1.strip_suffix(']')?;
            load.starts_with("ld.param.").then(|| (param.to_owned(), bits(load)))
        });
        let read: Vec<_> = read.collect();
        assert_eq!(read, entry.params, "{kernel}");
    }
}

#[test]
fn each_kernel_declares_its_registers_and_labels() {
    for (kernel, entry) in parsed().1 {
        let mut known: BTreeSet<String> =
            ["%ctaid.x", "%ntid.x", "%tid.x", "%nctaid.x", "%clock64"].map(str::to_owned).into();
        let (mut labels, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for statement in &entry.statements {
            if let Some(label) = statement.strip_suffix(':') {
                assert!(labels.insert(label), "{kernel}: {label} twice");
            } else if let Some(declared) = statement.strip_prefix(".reg ") {
                let (_, names) = declared.split_once(' ').unwrap();
                known.extend(names.split(',').flat_map(|name| registers(name.trim())));
            } else {
                let words = statement.split([' ', ',', '[', ']', '@']);
                for register in words.filter(|word| word.starts_with('%')) {
                    assert!(known.contains(register), "{kernel}: {register} in {statement:?}");
                }
                targets.extend(statement.split_once("bra ").map(|(_, target)| target));
            }
        }
        assert_eq!(targets, labels, "{kernel}");
        assert_eq!(entry.statements.last().map(String::as_str), Some("ret"), "{kernel}");
    }
}

/// What a declaration names: `%own`, or with `%r<5>` the five from `%r0`.
fn registers(declared: &str) -> Vec<String> {
    match declared.strip_suffix('>').and_then(|name| name.split_once('<')) {
        Some((name, count)) => (0..count.parse::<u32>().unwrap()).map(|i| format!("{name}{i}")).collect(),
        None => vec![declared.to_owned()],
    }
}

/// `PTXAS` names the assembler where it is not on the path.
#[test]
fn nvidias_assembler_takes_it() {
    let ptxas = env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    let there = Command::new(&ptxas).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        say_skipped("no assembler `ptxas` (PTXAS names another)");
        return;
    }
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kernels.ptx");
    for device in ["sm_52", "sm_90"] {
        let arch = format!("-arch={device}");
        let output = Command::new(&ptxas)
            .args([&arch, "--warning-as-error", image, "-o", "/dev/null"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{device}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
