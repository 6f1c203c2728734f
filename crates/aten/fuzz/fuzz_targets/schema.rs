//! Whatever is read as a schema prints as a text that is read as the same schema.

#![no_main]

use aten::dispatch::FunctionSchema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(schema) = text.parse::<FunctionSchema>() {
        let printed = schema.to_string();
        assert_eq!(printed.parse::<FunctionSchema>().expect("what is printed is read"), schema);
    }
});
