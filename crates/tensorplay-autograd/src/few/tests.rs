use super::{Few, OneOrMany};

#[test]
fn few_is_a_list_whatever_its_length() {
    for count in 0..6 {
        let expected: Vec<String> = (0..count).map(|i: i32| i.to_string()).collect();
        let mut list = Few::<String>::from_iter(expected.clone());
        assert_eq!(*list, *expected);
        list.iter_mut().for_each(|member| member.push('!'));
        list.push("last".to_owned());
        assert_eq!(list.len(), expected.len() + 1);
        assert!(list.iter().zip(&expected).all(|(own, other)| *own == format!("{other}!")));
        assert_eq!(list.last().map(String::as_str), Some("last"));
        let taken = std::mem::take(&mut list);
        assert!(list.is_empty() && taken.len() == expected.len() + 1);
    }
}

#[test]
fn one_or_many_is_a_list_whatever_its_length() {
    for count in 0..4 {
        let expected: Vec<u8> = (0..count).collect();
        let list = OneOrMany::from_iter(expected.clone());
        assert_eq!((&*list, matches!(list, OneOrMany::One(_))), (&*expected, count == 1));
    }
    assert!(OneOrMany::<u8>::default().is_empty());
}
