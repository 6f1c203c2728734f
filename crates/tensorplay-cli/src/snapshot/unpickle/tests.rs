//! Hostile and unusual pickles.

use super::*;

fn run(bytes: &[u8]) -> Result<String, String> {
    run_limited(bytes, Limits { memory_bytes: 200_000, ..Limits::default() })
}

fn run_limited(bytes: &[u8], limits: Limits) -> Result<String, String> {
    match unpickle(bytes, limits) {
        Ok((values, root)) => Ok(show(&values, root)),
        Err(error) => Err(error.to_string()),
    }
}

/// A value as Python would write it.
fn show(values: &Values<'_>, id: ValueId) -> String {
    match values.value(id) {
        Value::None => "None".into(),
        Value::Bool(value) => format!("{value:?}"),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::HugeInt => "huge".into(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(_) => format!("{:?}", values.text(id).unwrap()),
        Value::Bytes => "bytes".into(),
        Value::Sequence(_) => {
            let items: Vec<_> = values.sequence(id).unwrap().iter().map(|&item| show(values, item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Dict(_) => {
            let entries = values.dict(id).unwrap();
            let entries: Vec<_> = entries
                .map(|(key, value)| format!("{}: {}", show(values, key), show(values, value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[test]
fn every_protocol_builds_the_same_values() {
    let files: [&[u8]; 6] = [
        include_bytes!("../../../testdata/pickles/protocol0.pickle"),
        include_bytes!("../../../testdata/pickles/protocol1.pickle"),
        include_bytes!("../../../testdata/pickles/protocol2.pickle"),
        include_bytes!("../../../testdata/pickles/protocol3.pickle"),
        include_bytes!("../../../testdata/pickles/protocol4.pickle"),
        include_bytes!("../../../testdata/pickles/protocol5.pickle"),
    ];
    let shown: Vec<_> = files.into_iter().map(|file| run(file).unwrap()).collect();
    insta::assert_snapshot!(shown[0], @r#"{"a": [1, -2, 300, 70000, 1099511627776, 9223372036854775808, huge, true, false, None, 1.5], "b": ["x\n\\", "é", []], "d": ["p"], "e": [1, 2], "f": [1, 2, 3], "g": [1, 2, 3, 4]}"#);
    for other in &shown {
        assert_eq!(other, &shown[0]);
    }
}

#[test]
fn sets_bytes_and_old_strings_are_plain_values() {
    // {'c': {3}, 'f': frozenset([4]), 'y': b'yy', 'z': bytearray(b'zz')} in protocol 5.
    let sets = b"\x80\x05\x95\x2f\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01c\x94\x8f\x94(K\x03\x90\
        \x8c\x01f\x94(K\x04\x91\x94\x8c\x01y\x94C\x02yy\x94\x8c\x01z\x94\x96\x02\x00\x00\x00\x00\x00\x00\x00zz\x94u.";
    assert_eq!(run(sets).unwrap(), r#"{"c": [3], "f": [4], "y": bytes, "z": bytes}"#);
    // Python 2's strings.
    assert_eq!(run(b"S'it\\'s \\x41\\101\\n'\n.").unwrap(), r#""it's AA\n""#);
    assert_eq!(run(b"U\x02hi.").unwrap(), r#""hi""#);
    assert_eq!(run(b"T\x02\x00\x00\x00hi.").unwrap(), r#""hi""#);
    assert_eq!(run(b"X\x02\x00\x00\x00\xff\xfe.").unwrap(), "\"\u{fffd}\u{fffd}\"");
}

#[test]
fn the_stack_machine_keeps_to_its_rules() {
    assert_eq!(run(b"K\x01K\x020.").unwrap(), "1");
    assert_eq!(run(b"(K\x01K\x021K\x03.").unwrap(), "3");
    assert_eq!(run(b"K\x01((00.").unwrap(), "1");
    assert_eq!(run(b"K\x072\x86.").unwrap(), "[7, 7]");
    assert_eq!(run(b"Np5\n0g5\n.").unwrap(), "None");
    assert_eq!(run(b"K\x01r\xff\xff\xff\xff0j\xff\xff\xff\xff.").unwrap(), "1");
    let wrong: [&[u8]; 22] = [
        b"",
        b".",
        b"N",
        b"0.",
        b"1.",
        b"2.",
        b"(.",
        b"N(.",
        b"\x85.",
        b"K\x01\x86.",
        b"]a.",
        b"Na.",
        b"K\x01K\x02a.",
        b"}K\x01s.",
        b"](K\x01u.",
        b"}(K\x01u.",
        b"(K\x01d.",
        b"(K\x01(e.",
        b"h\x00.",
        b"g1e9\n.",
        b"\x94.",
        b"\xff.",
    ];
    let texts: Vec<_> = wrong.iter().map(|bytes| run(bytes).unwrap_err()).collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    byte 0: the pickle ends before its STOP
    byte 0: STOP: the stack has too few values for it
    byte 1: the pickle ends before its STOP
    byte 0: POP: the stack has too few values for it
    byte 0: POP_MARK: there is no mark on the stack for it
    byte 0: DUP: the stack has too few values for it
    byte 1: STOP: the stack has too few values for it
    byte 2: STOP: the stack has too few values for it
    byte 0: TUPLE1: the stack has too few values for it
    byte 2: TUPLE2: the stack has too few values for it
    byte 1: APPEND: the stack has nothing to append to
    byte 1: APPEND: the stack has nothing to append to
    byte 4: APPEND: appends to an integer
    byte 3: SETITEM: the stack has nothing to append to
    byte 4: SETITEMS: appends to a list
    byte 4: SETITEMS: a dict gets a key without a value
    byte 3: DICT: a dict gets a key without a value
    byte 4: APPENDS: appends to an integer
    byte 0: BINGET: memo entry 0 was never put
    byte 0: GET: "1e9" is not an integer
    byte 0: MEMOIZE: the stack has too few values for it
    byte 0: 0xff is not a pickle opcode
    "#);
}

#[test]
fn whatever_reaches_for_code_is_refused_by_name_and_offset() {
    let mut texts = String::new();
    let mut refused = 0;
    for opcode in 0..=u8::MAX {
        let input = [&b"\x80\x04N"[..], &[opcode], b"os\nsystem\n\x00\x00\x00\x00\x00\x00\x00\x00."].concat();
        if op::reaches_outside(opcode) {
            refused += 1;
            let text = run(&input).unwrap_err();
            assert!(text.starts_with("byte 3: the opcode ") && text.contains("is refused"), "{text}");
            texts += &format!("{text}\n");
        }
    }
    assert_eq!(refused, 15);
    insta::assert_snapshot!(texts, @"
    byte 3: the opcode PERSID (0x50) is refused: a snapshot holds plain values only
    byte 3: the opcode BINPERSID (0x51) is refused: a snapshot holds plain values only
    byte 3: the opcode REDUCE (0x52) is refused: a snapshot holds plain values only
    byte 3: the opcode BUILD (0x62) is refused: a snapshot holds plain values only
    byte 3: the opcode GLOBAL (0x63) is refused: a snapshot holds plain values only
    byte 3: the opcode INST (0x69) is refused: a snapshot holds plain values only
    byte 3: the opcode OBJ (0x6f) is refused: a snapshot holds plain values only
    byte 3: the opcode NEWOBJ (0x81) is refused: a snapshot holds plain values only
    byte 3: the opcode EXT1 (0x82) is refused: a snapshot holds plain values only
    byte 3: the opcode EXT2 (0x83) is refused: a snapshot holds plain values only
    byte 3: the opcode EXT4 (0x84) is refused: a snapshot holds plain values only
    byte 3: the opcode NEWOBJ_EX (0x92) is refused: a snapshot holds plain values only
    byte 3: the opcode STACK_GLOBAL (0x93) is refused: a snapshot holds plain values only
    byte 3: the opcode NEXT_BUFFER (0x97) is refused: a snapshot holds plain values only
    byte 3: the opcode READONLY_BUFFER (0x98) is refused: a snapshot holds plain values only
    ");
    // `pickle.dumps(os.system)`, and a reduce of it.
    let attack = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.";
    assert_eq!(
        run(attack).unwrap_err(),
        "byte 19: the opcode STACK_GLOBAL (0x93) is refused: a snapshot holds plain values only"
    );
}

#[test]
fn announced_lengths_are_checked_before_anything_is_reserved() {
    for bytes in [
        &b"X\xff\xff\xff\xffab"[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab",
        b"B\xff\xff\xff\x7fab",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffab",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fab",
        b"\x8b\xff\xff\xff\x7fab",
        b"\x8b\xff\xff\xff\xffab",
        b"T\xfe\xff\xff\xffab",
        b"\x8a\xffab",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
        b"\x8c",
        b"I12",
        b"F1.",
        b"J\x00\x00",
    ] {
        let text = run(bytes).unwrap_err();
        assert!(text.starts_with("byte 0: "), "{text}");
    }
}

#[test]
fn numbers_in_text_are_checked() {
    for bytes in
        [&b"Ix\n."[..], b"I\n.", b"L12LL\n.", b"I1e3\n.", b"Fabc\n.", b"F\n.", b"S'open\n.", b"S'\\q'\n."]
    {
        let text = run(bytes).unwrap_err();
        assert!(text.starts_with("byte 0: "), "{text}");
    }
    assert_eq!(run(&[&b"I"[..], &[b'9'; 500], b"\n."].concat()).unwrap(), "huge");
    assert_eq!(run(b"\x8a\x00.").unwrap(), "0");
    assert_eq!(run(b"\x8a\x01\xff.").unwrap(), "-1");
    assert_eq!(run(b"F-2.5e3\n.").unwrap(), "-2500.0");
}

#[test]
fn deep_nesting_is_refused_and_dropped_without_recursion() {
    let deep = |count: usize| [vec![b']'; count], vec![b'a'; count - 1], vec![b'.']].concat();
    assert!(run(&deep(60)).is_ok());
    assert!(run(&deep(66)).unwrap_err().ends_with("containers are nested more than 64 deep"));
    let unlimited = Limits { memory_bytes: 500_000_000, ..Limits::default() };
    assert!(run_limited(&deep(1_000_000), unlimited).unwrap_err().contains("nested more than 64"));
    // Tuples around tuples, marks on marks, and a table that is deep for all that it may be.
    assert!(run_limited(&[vec![b')'], vec![0x85; 1_000_000], vec![b'.']].concat(), unlimited).is_err());
    assert!(run_limited(&vec![b'('; 1_000_000], unlimited).is_err());
    let deepest = deep(1_000_000);
    let (values, root) = unpickle(&deepest, Limits { depth: u32::MAX, ..unlimited }).unwrap();
    assert_eq!(values.sequence(root).unwrap().len(), 1);
}

#[test]
fn a_value_that_contains_itself_is_refused() {
    for bytes in [
        // l = []; l.append(l), in both forms; d = {}; d[1] = d.
        &b"]\x94h\x00a."[..],
        b"]\x94(h\x00e.",
        b"}\x94K\x01h\x00s.",
        // l = []; m = [l]; l.append(m), as pickle writes it and in the other order.
        b"]\x94(]\x94(h\x00eh\x01e.",
        b"]\x94]\x94h\x00ah\x01\x86h\x00h\x01a.",
        // t = ([],); t[0].append(t)
        b"]\x94\x85\x94h\x00h\x01a.",
    ] {
        let text = run(bytes).unwrap_err();
        assert!(text.ends_with("the value would contain itself"), "{text}");
    }
}

#[test]
fn a_shared_value_stays_shared() {
    // A billion laughs: each list holds the one before it ten times.
    let mut laughs = b"(K\x01l\x94".to_vec();
    for index in 0..40 {
        laughs.push(b'(');
        laughs.extend([b'h', index].repeat(10));
        laughs.extend(b"l\x94");
    }
    laughs.push(b'.');
    let (values, root) = unpickle(&laughs, Limits { memory_bytes: 10_000, ..Limits::default() }).unwrap();
    assert_eq!(values.sequence(root).unwrap().len(), 10);
}

#[test]
fn the_memory_for_values_is_bounded() {
    let limits = Limits { memory_bytes: 4000, ..Limits::default() };
    for unit in [&b"K\x01"[..], b"]", b"N", b"(", b"N2", b"N\x94", b"U\x00"] {
        let text = run_limited(&unit.repeat(2000), limits).unwrap_err();
        assert!(text.ends_with("its values need more than 4000 bytes of memory"), "{text}");
    }
    let references = |count| [b"N\x94](".to_vec(), b"h\x00".repeat(count), b"e.".to_vec()].concat();
    assert!(run_limited(&references(950), limits).is_ok());
    assert!(run_limited(&references(990), limits).is_err());
}

#[test]
fn every_truncation_is_an_error() {
    let whole: &[u8] = include_bytes!("../../../testdata/pickles/protocol4.pickle");
    for end in 0..whole.len() {
        assert!(run(&whole[..end]).is_err(), "cut at {end}");
    }
    let whole: &[u8] = include_bytes!("../../../testdata/pickles/protocol0.pickle");
    for end in 0..whole.len() {
        assert!(run(&whole[..end]).is_err(), "cut at {end}");
    }
}
