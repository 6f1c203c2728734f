//! Layouts and memory formats: PyTorch's names and numbers both ways.

use c10_core::{ErrorKind, Layout, MemoryFormat};
use proptest::prelude::*;

#[test]
fn layouts_go_both_ways() {
    let names: Vec<_> = Layout::ALL.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(names.join(" "), @"strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged");
    for layout in Layout::ALL {
        assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
        assert_eq!(format!("{layout:#}"), format!("torch.{layout}"));
        assert_eq!(format!("{layout:#}").parse::<Layout>().unwrap(), layout);
        assert_eq!(Layout::from_number(layout.number()), Some(layout));
        assert_eq!(layout.is_supported(), layout == Layout::Strided);
    }
    assert_eq!(Layout::ALL.map(Layout::number), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(Layout::from_number(8), None);
    assert_eq!(Layout::default(), Layout::Strided);
}

#[test]
fn memory_formats_go_both_ways() {
    let names: Vec<_> = MemoryFormat::ALL.iter().map(|m| format!("{m:#}")).collect();
    insta::assert_snapshot!(names.join(" "), @"torch.contiguous_format torch.preserve_format torch.channels_last torch.channels_last_3d");
    for format in MemoryFormat::ALL {
        assert_eq!(format.to_string().parse::<MemoryFormat>().unwrap(), format);
        assert_eq!(format!("{format:#}").parse::<MemoryFormat>().unwrap(), format);
        assert_eq!(MemoryFormat::from_number(format.number()), Some(format));
    }
    assert_eq!(MemoryFormat::ALL.map(MemoryFormat::number), [0, 1, 2, 3]);
    assert_eq!(MemoryFormat::from_number(-1), None);
    assert_eq!("contiguous".parse::<MemoryFormat>().unwrap(), MemoryFormat::Contiguous);
    assert_eq!("preserve".parse::<MemoryFormat>().unwrap(), MemoryFormat::Preserve);
}

#[test]
fn refusals_list_the_names() {
    let layout = "torch.dense".parse::<Layout>().unwrap_err();
    insta::assert_snapshot!(layout, @"'torch.dense' is no layout; there are strided, sparse_coo, sparse_csr, _mkldnn, sparse_csc, sparse_bsr, sparse_bsc, jagged");
    let format = "channels_first".parse::<MemoryFormat>().unwrap_err();
    insta::assert_snapshot!(format, @"'channels_first' is no memory format; there are contiguous_format, preserve_format, channels_last, channels_last_3d");
    assert_eq!((layout.kind(), format.kind()), (ErrorKind::Parse, ErrorKind::Parse));
    assert!("channels_last_format".parse::<MemoryFormat>().is_err());
    assert!("torch.torch.strided".parse::<Layout>().is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Layout>();
        let _ = text.parse::<MemoryFormat>();
    }
}
