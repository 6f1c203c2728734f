//! Schemas: PyTorch's own, its parser's quirks, and whatever else a text may be.

use std::io::Read;

use aten::ErrorKind;
use aten::dispatch::{AliasInfo, AliasSet, ArgType, Argument, DefaultValue, FunctionSchema, OperatorName};
use proptest::prelude::*;

/// The schemas that PyTorch 2.15 printed.
fn corpus() -> Vec<String> {
    let compressed = include_bytes!("../../testdata/schemas.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed[..])
        .read_to_string(&mut text)
        .expect("the file is gzip of UTF-8");
    let schema =
        |line| match serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON")["schema"]
            .take()
        {
            serde_json::Value::String(schema) => schema,
            other => panic!("a schema is a string, not {other}"),
        };
    text.lines().map(schema).collect()
}

fn parse(text: &str) -> FunctionSchema {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    let error = text.parse::<FunctionSchema>().expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Parse, "{text}");
    error.to_string()
}

#[test]
fn pytorchs_schemas_print_as_they_were() {
    let corpus = corpus();
    assert_eq!(corpus.len(), 1376);
    for text in corpus {
        assert_eq!(parse(&text).to_string(), text);
    }
}

#[test]
fn the_parts_of_a_schema() {
    let schema = parse("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
    assert_eq!(schema.name(), &OperatorName::try_new("aten::add_", "Tensor").unwrap());
    assert_eq!(schema.name().namespace(), Some("aten"));
    assert_eq!(schema.name().base_name(), "add_");
    let mark = AliasInfo {
        before: vec![AliasSet::Named("a".to_owned())],
        after: vec![AliasSet::Named("a".to_owned())],
        is_write: true,
        contained: None,
    };
    let tensor = |name: &str, alias| Argument {
        name: name.to_owned(),
        arg_type: ArgType::Tensor,
        default: None,
        kwarg_only: false,
        alias,
    };
    assert_eq!(schema.arguments()[0], tensor("self", Some(mark.clone())));
    assert_eq!(schema.arguments()[1], tensor("other", None));
    assert_eq!(schema.arguments()[2].default, Some(DefaultValue::Int(1)));
    assert!(schema.arguments()[2].kwarg_only);
    assert_eq!(schema.returns()[0].alias, Some(mark));
    assert_eq!(schema.argument_index("alpha"), Some(2));
    assert!(schema.is_mutable());

    let split = parse("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
    let before = split.arguments()[0].alias.as_ref().unwrap();
    assert_eq!((&before.after[..], before.is_write), (&[AliasSet::Wildcard][..], false));
    let chunks = split.returns()[0].alias.as_ref().unwrap();
    assert!(chunks.before.is_empty());
    assert_eq!(chunks.innermost().before, [AliasSet::Named("a".to_owned())]);
    assert!(parse("f(Tensor(a!)[] self) -> ()").is_mutable());
    assert!(!split.is_mutable());
}

/// Texts that PyTorch 2.15 accepts, and how it prints them; `""` for unchanged.
const ACCEPTED: &[(&str, &str)] = &[
    ("ns::foo.ov(Tensor x) -> (Tensor)", "ns::foo.ov(Tensor x) -> Tensor"),
    ("foo() -> ()", ""),
    ("foo(Tensor x, ...) -> ...", ""),
    ("foo(...) -> (Tensor, ...)", ""),
    ("foo(...) -> (...)", "foo(...) -> ..."),
    ("foo(int x, *) -> int", "foo(int x) -> int"),
    ("foo(int x, *, *, int y) -> int", "foo(int x, *, int y) -> int"),
    ("foo(Tensor x, *, ...) -> Tensor", "foo(Tensor x, ...) -> Tensor"),
    ("foo(Tensor(a -> b) x) -> Tensor(b)", ""),
    ("foo(Tensor(a! -> *) x) -> Tensor", ""),
    ("foo(Tensor(*!) x) -> Tensor(*)", ""),
    ("foo(Tensor(* -> *) x) -> Tensor(*)", "foo(Tensor(*) x) -> Tensor(*)"),
    ("foo(Tensor(a|a) x) -> Tensor", "foo(Tensor(a) x) -> Tensor"),
    ("foo(Tensor(a)? x) -> Tensor(a)?", ""),
    ("foo(Tensor[](a) x) -> Tensor", ""),
    ("foo(Tensor(a!)[2](b) x) -> int", ""),
    ("foo(Tensor[2](b!)? x) -> int", ""),
    ("foo(Tensor(a)[2]? x) -> int", ""),
    ("foo(int?? x) -> int", "foo(int? x) -> int"),
    ("foo(int[][2] x, int[][]? y) -> int", ""),
    ("foo(int[2] x=1) -> int", ""),
    ("foo(int[2] x=[1,1]) -> int", "foo(int[2] x=1) -> int"),
    ("foo(int[2] x=[1]) -> int", ""),
    ("foo(int[2]? x=1) -> int", ""),
    ("foo(int[0] x=1) -> int", "foo(int[0] x=[]) -> int"),
    ("foo(int[5000] x=7) -> int", ""),
    ("foo(int[ 3 ] x = [ 1 , 2 , 3 ] ) -> int", "foo(int[3] x=[1, 2, 3]) -> int"),
    ("foo(int[] x=[-1,- 2]) -> int", "foo(int[] x=[-1, -2]) -> int"),
    ("foo(SymInt[2] x=1) -> SymInt[]", "foo(SymInt[2] x=[1, 1]) -> SymInt[]"),
    ("foo(bool[2] x=True) -> bool", "foo(bool[2] x=[True, True]) -> bool"),
    ("foo(float[2] x=1) -> float", "foo(float[2] x=[1., 1.]) -> float"),
    ("foo(float x=1e-5) -> float", "foo(float x=1.0000000000000001e-05) -> float"),
    ("foo(float x=.5) -> float", "foo(float x=0.5) -> float"),
    ("foo(float x=- 1.5) -> float", "foo(float x=-1.5) -> float"),
    ("foo(float x=0.1) -> float", "foo(float x=0.10000000000000001) -> float"),
    ("foo(float x=1e18) -> float", "foo(float x=1000000000000000000.) -> float"),
    ("foo(float x=9223372036854774784.) -> float", ""),
    ("foo(float x=9223372036854775808.) -> float", "foo(float x=9.2233720368547758e+18) -> float"),
    ("foo(float x=-9223372036854775808.) -> float", ""),
    ("foo(float x=1e20) -> float", "foo(float x=1e+20) -> float"),
    ("foo(float x=123456.789) -> float", ""),
    ("foo(float x=123456789012345.5) -> float", ""),
    ("foo(float x=2.2250738585072014e-308) -> float", ""),
    ("foo(float x=1.7976931348623157e308) -> float", "foo(float x=1.7976931348623157e+308) -> float"),
    ("foo(int x=1.5) -> float", ""),
    ("foo(int x=1e3) -> int", "foo(int x=1000.) -> int"),
    ("foo(int x=-9223372036854775808) -> int", ""),
    (
        "foo(int x=long, ScalarType y=float, int z=complex) -> int",
        "foo(int x=4, ScalarType y=6, int z=9) -> int",
    ),
    (
        "foo(int x=Mean, Layout y=strided, MemoryFormat z=contiguous_format) -> int",
        "foo(int x=1, Layout y=0, MemoryFormat z=0) -> int",
    ),
    ("foo(int[2] x=[long]) -> int", "foo(int[2] x=[4]) -> int"),
    ("foo(int x=None, bool y=1, str z=None, Layout w=None) -> int", ""),
    ("foo(str x='a\"b', str y='a\\'b') -> str", "foo(str x=\"a\\\"b\", str y=\"a\\'b\") -> str"),
    ("foo(str x=\"a\\nb\\tc\\\\\\101\\001\\177\") -> str", "foo(str x=\"a\\nb\\tc\\\\A\\001\\177\") -> str"),
    ("foo(str x=\"\\a\\b\\f\\v\\007\\015\") -> str", "foo(str x=\"\\a\\b\\f\\v\\a\\r\") -> str"),
    ("foo(str x=\"a#b\") -> str # comment", "foo(str x=\"a#b\") -> str"),
    (
        "foo(Scalar x=1e-05, Scalar y=True) -> Scalar",
        "foo(Scalar x=1.0000000000000001e-05, Scalar y=True) -> Scalar",
    ),
    ("foo(complex x=2.5j) -> complex", "foo(complex x=0.+2.5j) -> complex"),
    ("foo(complex[] x=[1j,-2.5j]) -> complex", "foo(complex[] x=[0.+1.j, 0.-2.5j]) -> complex"),
    ("foo(DeviceIndex x=1) -> ConstQuantizerPtr", "foo(int x=1) -> int"),
    ("foo(None a) -> None", "foo(NoneType a) -> NoneType"),
    ("foo(t[] x, tVar y, number z, torch.Size w) -> t", ""),
    ("foo(Dict(str, Tensor(a!)) x) -> Dict(int, Tensor)", "foo(Dict(str, Tensor) x) -> Dict(int, Tensor)"),
    ("foo(Dict(str, Tensor)(a!) x) -> Dict(int, Tensor)", ""),
    ("foo(Future(Tensor)[] x, RRef(int) y, Await(int)? z) -> Future(int)", ""),
    ("foo((int, Tensor)[] x, () y, (int) z) -> ((int, Tensor))", ""),
    (
        "foo(SymBool b, Storage? c, Stream d, QScheme e, Capsule f, AnyEnumType g, Any? h=None) -> AnyClassType",
        "",
    ),
    ("foo(Tensor x) -> (Tensor a, Tensor)", ""),
    ("foo(Tensor x) -> (Tensor a)", "foo(Tensor x) -> Tensor a"),
    ("foo(Tensor(a) x) -> Tensor(a) trailing", ""),
    ("foo(Tensor x) -> (int[2] a, int[2]? b)", ""),
    ("foo(int a=1, *, int b) -> int", ""),
    ("foo(int a, int a) -> int", ""),
    ("  foo (int a\n)->int\n", "foo(int a) -> int"),
    ("foo(Tensor from, Tensor self, Tensor lambda) -> Tensor", ""),
    ("foo.ov__(Tensor x1, int X_2) -> Tensor _y", ""),
    // Where PyTorch prints what it cannot read, this prints what it reads.
    ("foo(Tensor(a|b!) x) -> Tensor(b|a)", ""),
    ("foo(Tensor(a!)?[] x) -> Tensor(a)[]?", ""),
    ("foo(Tensor(a)[][] x) -> int", ""),
    ("foo(Tensor! x, Tensor![] y, int[2]! z) -> Tensor!", ""),
    ("foo(int[] x=[1, 1], int[3] y=[1, 1]) -> int", ""),
    (
        "foo(Device x='cuda:1', Device? y='cpu') -> Device",
        "foo(Device x=\"cuda:1\", Device? y=\"cpu\") -> Device",
    ),
    ("foo(float x=\"a\") -> float", ""),
    ("foo(complex x=0.5+1.j, complex y=-1.-2.j) -> float", ""),
    ("foo(float x=-0.) -> float", ""),
];

#[test]
fn what_pytorch_accepts() {
    for (text, printed) in ACCEPTED {
        let printed = if printed.is_empty() { text } else { printed };
        let schema = parse(text);
        assert_eq!(schema.to_string(), *printed);
        assert_eq!(parse(printed), schema);
    }
}

/// Texts that PyTorch 2.15 refuses, with the beginning of the sentence.
const REFUSED: &[(&str, &str)] = &[
    ("", "expected ident but found 'eof' here"),
    ("foo", "Tried to parse a function schema but only the operator name was given"),
    ("foo(Tensor x", "expected ) but found 'eof' here"),
    ("foo(Tensor x)", "expected arrow but found 'eof' here"),
    ("foo(Tensor x) ->", "expected ident but found 'eof' here"),
    ("foo(Tensor x) - > Tensor", "expected arrow but found '-' here"),
    ("foo(Tensor x -> int", "expected ) but found 'arrow' here"),
    ("foo(Tensor) -> Tensor", "expected ident but found ')' here"),
    ("foo(Tensor x y) -> Tensor", "expected ) but found 'ident' here"),
    ("foo(int x,) -> int", "expected ident but found ')' here"),
    ("foo(int x, *,) -> int", "expected ident but found ')' here"),
    ("foo(,) -> Tensor", "expected ident but found ',' here"),
    ("foo(..., Tensor x) -> Tensor", "... must be the last element of the argument list"),
    ("foo(Tensor x) -> (..., Tensor a)", "... must be the last element of the return list"),
    ("foo(Tensor... x) -> Tensor", "expected ident but found 'dots' here"),
    ("foo(Tensor?(a!) x) -> Tensor", "expected ident but found '(' here"),
    ("foo(Tensor?! x) -> Tensor", "expected ident but found '!' here"),
    ("foo(Tensor(!) x) -> Tensor", "expected ident but found '!' here"),
    ("foo(Tensor() x) -> Tensor", "expected ident but found ')' here"),
    ("foo(Tensor(a!|b) x) -> Tensor", "expected ) but found '|' here"),
    ("foo(Tensor(a|) x) -> Tensor", "expected ident but found ')' here"),
    ("foo(Tensor(a a) x) -> Tensor", "expected ) but found 'ident' here"),
    ("foo((int, Tensor)(a) x) -> int", "expected ident but found '(' here"),
    ("foo(int[2][3] x) -> int", "expected ident but found '[' here"),
    ("foo(int[2]?[] x) -> int", "expected ident but found '[' here"),
    ("foo(Tensor?[2]?? x) -> int", "expected ident but found '?' here"),
    ("foo(int[-1] x) -> int", "expected number but found '-' here"),
    ("foo(int[99999999999999999999] x) -> int", "expected the size of a list here"),
    ("foo(int[] x=1) -> int", "expected [ but found 'number' here"),
    ("foo(int[2] x=Mean) -> int", "expected None but found 'ident' here"),
    ("foo(int[]? x=[1,2]) -> int", "expected number but found '[' here"),
    ("foo(int[2] x=1.5) -> int", "expected int but found 1.5 here"),
    ("foo(bool[2] x=[1,0]) -> int", "expected bool but found 1 here"),
    ("foo(str[] x=[]) -> str", "lists are only supported for float, int and complex types"),
    ("foo(Tensor?[] x=[]) -> str", "lists are only supported for float, int and complex types"),
    ("foo(float x=+1.5) -> float", "expected number but found '+' here"),
    ("foo(float x=inf) -> float", "invalid numeric default value"),
    ("foo(int x=bfloat16) -> float", "invalid numeric default value"),
    ("foo(MemoryFormat? x=preserve_format) -> int", "invalid numeric default value"),
    ("foo(float x=1e400) -> float", "expected a number in the range of 64-bit floats here"),
    ("foo(float x=1e-400) -> float", "expected a number in the range of 64-bit floats here"),
    ("foo(int x=9223372036854775808) -> int", "expected a number of 64 bits here"),
    ("foo(complex x=1) -> complex", "expected a complex number here"),
    ("foo(int x=1_000) -> int", "expected ) but found 'ident' here"),
    ("foo(float x=1..2) -> float", "expected ) but found 'number' here"),
    ("foo(float x=.) -> float", "expected number but found '.' here"),
    ("foo(Tensor x=1) -> Tensor", "expected None but found 'number' here"),
    ("foo(Generator x=1) -> int", "expected None but found 'number' here"),
    ("foo(Device x=cpu) -> Device", "expected string_literal but found 'ident' here"),
    ("foo(Device x=\"foo\") -> Device", "invalid device string 'foo'"),
    ("foo(Any a=1) -> Any", "an argument of type Any has no default"),
    ("foo(t x=None) -> t", "an argument of type t has no default"),
    ("foo(NoneType? x) -> int", "NoneType is optional by itself"),
    ("foo(Foo x) -> Tensor", "unknown type specifier. Common valid schema types include Tensor, SymInt, int"),
    ("foo(SymFloat x) -> Tensor", "unknown type specifier"),
    ("foo(Dimname x) -> Tensor", "unknown type specifier"),
    (
        "foo(__torch__.torch.classes.a.B x) -> Tensor",
        "Unknown custom class type a.B. Please ensure it is registered.",
    ),
    ("foo(Future x) -> Future", "expected ( but found 'ident' here"),
    ("foo.default(Tensor x) -> Tensor", "default is not a legal overload name for aten operators"),
    ("foo.__ov(Tensor x) -> Tensor", "__ov is not a legal overload name for aten operators"),
    ("foo.ov.ov2(Tensor x) -> Tensor", "expected eof but found '.' here"),
    ("foo.if(Tensor x) -> Tensor", "expected ident but found 'if' here"),
    ("a::b::foo(Tensor x) -> Tensor", "expected eof but found ':' here"),
    ("::foo(Tensor x) -> Tensor", "expected ident but found ':' here"),
    ("foo:bar(Tensor x) -> Tensor", "expected : but found 'ident' here"),
    ("foo(Tensor None) -> Tensor", "expected ident but found 'None' here"),
    ("foo(Tensor é) -> Tensor", "expected a valid token but found 'é' here"),
    ("foo(Tensor $x) -> Tensor", "expected ident but found '$' here"),
    ("foo(str x=\"unterminated) -> int", "expected a string that ends in its line here"),
    ("foo(str x=\"\\x41\") -> str", "unsupported hex specifier"),
    ("foo(str x=\"\\7\") -> str", "ill formed octal specifier"),
    ("foo(str x=\"\\q\") -> str", "ill formed octal specifier"),
    ("foo(str x=\"\\777\") -> str", "ill formed octal specifier"),
    (
        "foo(int a=1, int b) -> int",
        "Non-default positional argument follows default argument. Parameter b in foo(int",
    ),
    ("foo(Tensor x) -> Tensor a b", "expected eof but found 'ident' here"),
    ("foo(Tensor x) -> (int a=1)", "expected ) but found '=' here"),
    ("foo(Tensor x) -> (Tensor, Tensor)[]", "expected eof but found '[' here"),
];

#[test]
fn what_pytorch_refuses() {
    for (text, sentence) in REFUSED {
        let message = refusal(text);
        assert!(message.starts_with(sentence), "{text}: {message}");
    }
}

#[test]
fn a_refusal_points_at_the_place() {
    insta::assert_snapshot!(refusal("foo(Tensor x,\n    Tensor?(a!) y) -> Tensor"), @r"
    expected ident but found '(' here:
        Tensor?(a!) y) -> Tensor
               ~ <--- HERE
    ");
    let long = format!("foo({}Foo x) -> ()", "int x, ".repeat(500));
    let message = refusal(&long);
    assert!(message.len() < 800 && message.contains("~~~ <--- HERE"), "{message}");
}

#[test]
fn no_text_takes_more_than_its_length() {
    let deep = |n: usize| format!("f({}int{} x) -> ()", "(".repeat(n), ")".repeat(n));
    assert!(deep(200).parse::<FunctionSchema>().is_ok());
    assert!(refusal(&deep(1_000_000)).starts_with("a type has more than 256 parts here"));
    assert!(
        refusal(&format!("f(int{} x) -> ()", "[]".repeat(1_000_000))).starts_with("a type has more than 256")
    );
    assert!(
        refusal(&format!("f({}int", "Dict(int, ".repeat(100_000))).starts_with("a type has more than 256")
    );
    assert!(parse(&format!("f(int{} x) -> ()", "?".repeat(100_000))).arguments()[0].arg_type.is_optional());
    assert!(refusal("f(int[2000000000] x=1) -> ()").starts_with("one default stands for at most"));
}

#[test]
fn names() {
    let name: OperatorName = "aten::add.Tensor".parse().unwrap();
    assert_eq!((name.name(), name.overload(), name.base_name()), ("aten::add", "Tensor", "add"));
    assert_eq!(name.to_string(), "aten::add.Tensor");
    let bare: OperatorName = "mm".parse().unwrap();
    assert_eq!((bare.namespace(), bare.overload()), (None, ""));
    assert_eq!(bare.clone().with_namespace_if_unset("aten").to_string(), "aten::mm");
    assert_eq!(OperatorName::try_new("mm", "").unwrap(), bare);
    assert_eq!(name.clone().with_namespace_if_unset("other"), name);
    for bad in ["", "a b", "a::", "a::b::c", "a.default", "a(", "1a"] {
        assert_eq!(bad.parse::<OperatorName>().unwrap_err().kind(), ErrorKind::Parse, "{bad}");
    }
    assert!(OperatorName::try_new("a.b", "").is_err());
    assert!(OperatorName::try_new(" a", "b").is_err());
}

fn reads_what_it_prints(text: &str) -> Result<(), TestCaseError> {
    if let Ok(schema) = text.parse::<FunctionSchema>() {
        let printed = schema.to_string();
        match printed.parse::<FunctionSchema>() {
            Ok(again) => {
                prop_assert_eq!(&again, &schema, "{} as {}", text, &printed);
                prop_assert_eq!(again.to_string(), printed);
            }
            Err(error) => prop_assert!(false, "{} printed as {}: {}", text, printed, error),
        }
    }
    Ok(())
}

/// Pieces from which mutations are made.
const PIECES: &[&str] = &[
    "Tensor",
    "int",
    "SymInt",
    "float",
    "bool",
    "str",
    "Scalar",
    "complex",
    "Device",
    "t",
    "Dict(",
    "Future(",
    "(",
    ")",
    "[",
    "]",
    "[]",
    "[2]",
    "?",
    "!",
    "(a!)",
    "(a -> *)",
    "(*)",
    "|",
    "*",
    "*, ",
    ", ",
    "...",
    "=",
    "=1",
    "=[1, 2]",
    "=-1.5e3",
    "=None",
    "=\"a\\n\"",
    "=1j",
    "+2.j",
    " x",
    "->",
    " -> ",
    ".",
    "::",
    "#",
    "\n",
    "\"",
    "'",
    "\\",
    "é",
    "0",
    "9999999999",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        reads_what_it_prints(&text)?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        reads_what_it_prints(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn pieces_are_read_or_refused(pieces in proptest::collection::vec(prop::sample::select(PIECES), 0..24)) {
        reads_what_it_prints(&format!("f({}) -> {}", pieces.concat(), pieces.concat()))?;
        reads_what_it_prints(&pieces.concat())?;
    }

    #[test]
    fn mutations_of_schemas_are_read_or_refused(
        text in prop::sample::select(corpus()),
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::sample::select(PIECES)), 1..4),
    ) {
        let mut text = text;
        for (from, to, piece) in edits {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (from, to) = (from.index(places.len()), to.index(places.len()));
            let to = if to > from && to - from < 8 { to } else { from };
            text.replace_range(places[from]..places[to], piece);
        }
        reads_what_it_prints(&text)?;
    }
}
