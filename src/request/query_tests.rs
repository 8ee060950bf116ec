use super::*;
use crate::request::Endpoint;

#[test]
fn without_its_keys_a_query_has_all_other_pairs_as_sent() {
    for (sent, left) in [
        (None, None),
        (Some(""), None),
        (Some("key=a"), None),
        (Some("key"), None),
        (Some("a=1&key=x"), Some("a=1")),
        (
            Some("key=x&a=1&b&&%6Bey=y&a=%31&KEY=z"),
            Some("a=1&b&a=%31&KEY=z"),
        ),
        (Some("a=key&monkey=1&%zz=1"), Some("a=key&monkey=1&%zz=1")),
    ] {
        let without = Query::split(sent).without_key();
        assert_eq!(without.as_deref(), left, "{sent:?}");
        assert_eq!(Query::split(without.as_deref()).keys().key, SentKey::None);
    }
}

#[test]
fn pairs_are_split_before_they_are_decoded() {
    let sent = Query::split(Some("&&a=1%262=3&b&=c&&d+e=%3D&"));
    let sent = sent
        .0
        .iter()
        .map(|pair| (pair.name().unwrap(), pair.value().unwrap()));
    let sent: Vec<_> = sent.collect();
    let sent: Vec<(&str, &str)> = sent.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(sent, [("a", "1&2=3"), ("b", ""), ("", "c"), ("d e", "=")]);
    assert_eq!(Query::split(None), Query::default());
}

#[test]
fn a_key_is_found_in_any_encoding() {
    let key = |raw| Query::split(Some(raw)).keys().key;
    assert_eq!(Query::default().keys().key, SentKey::None);
    assert_eq!(key("keys=1&Key=2&a=key"), SentKey::None);
    assert_eq!(key("%6bez=1"), SentKey::None);
    let once = |raw| match key(raw) {
        SentKey::Once(key) => key.into_owned(),
        other => panic!("{raw}: {other:?}"),
    };
    assert_eq!(once("a=%zz&%6Bey=x%2By"), "x+y");
    assert_eq!(once("%zz=1&key=%ff"), "");
    assert_eq!(once("key"), "");
    assert_eq!(key("key=1&a=2&%6bey=1"), SentKey::Twice);
    assert_eq!(key("key=&key"), SentKey::Twice);
}

#[test]
fn ignored_names_are_listed_once_in_order_encoded_and_without_keys() {
    let of =
        |raw, endpoint: Endpoint| Query::split(Some(raw)).ignored(|name| endpoint.declares(name));
    assert_eq!(Query::default().ignored(|_| false), None);
    for raw in [
        "",
        "&&",
        "=1",
        "key=1&k%65y=2",
        "%zz=1",
        "im_live_a_b=1&im%5flive%5Fa",
    ] {
        assert_eq!(of(raw, Endpoint::Live), None, "{raw}");
    }
    for (raw, islands, creators) in [
        ("limit=1&page=2&q=a&page=3", "page", "page"),
        (
            "tag[]=a&Limit=1&t%61g=b",
            "tag%5B%5D, Limit",
            "tag%5B%5D, Limit, tag",
        ),
        (
            "a+b&%C3%A9=&%0D%0Ax",
            "a%20b, %C3%A9, %0D%0Ax",
            "a%20b, %C3%A9, %0D%0Ax",
        ),
        (
            "a&b&c&d&e&f&g&key&h&i&j",
            "a, b, c, d, e, f, g, h",
            "a, b, c, d, e, f, g, h",
        ),
    ] {
        assert_eq!(
            of(raw, Endpoint::Islands).as_deref(),
            Some(islands),
            "{raw}"
        );
        assert_eq!(
            of(raw, Endpoint::Creators).as_deref(),
            Some(creators),
            "{raw}"
        );
    }
    assert_eq!(
        of("limit=1&x", Endpoint::Index).as_deref(),
        Some("limit, x")
    );
    let long = |letter: char| letter.to_string().repeat(500);
    for (letter, bytes) in [('a', 96), ('é', 96), ('死', 90), ('🔥', 96)] {
        let listed = Query::split(Some(&long(letter)))
            .ignored(|_| false)
            .unwrap();
        let encoded = utf8_percent_encode(&long(letter), RESERVED).to_string();
        assert_eq!(listed, encoded[..bytes], "{letter}");
    }
    // Each name is cut by itself.
    let both = format!("{}&{}", long('a'), long('b'));
    let both = Query::split(Some(&both)).ignored(|_| false);
    let cut = |letter: char| letter.to_string().repeat(IGNORED_BYTES_MAX);
    assert_eq!(both, Some(format!("{}, {}", cut('a'), cut('b'))));
}

#[test]
fn keys_are_looked_for_under_the_names_of_other_services() {
    let of = |raw| Query::split(Some(raw)).keys().misplaced;
    assert!(Query::default().keys().misplaced.is_empty());
    assert!(of("key=a_live_&keys=b_live_&k=c_live_&api-keys=d_live_&%zz=e_live_").is_empty());
    assert!(of("token=a&KEY=live&Token=_LIVE_").is_empty());
    assert_eq!(of("limit=2&token=im_live_a"), ["im_live_a"]);
    let sent = "api_key=a_live_&apikey=b_live_&KEY=c_live_&Key=d_live_&token=e_live_\
        &access_token=f_live_&apiKey=g%5Flive_&%74oken=h+_live_&Token=%zz_live_";
    let found = [
        "a_live_",
        "b_live_",
        "c_live_",
        "d_live_",
        "e_live_",
        "f_live_",
        "g_live_",
        "h _live_",
        "%zz_live_",
    ];
    assert_eq!(of(sent), found);
}

#[test]
fn only_encoding_is_checked_without_declared_parameters() {
    assert_eq!(Query::default().values(&[]), Ok([]));
    let sent = Query::split(Some("limit=x&limit=y&é=%C3%A9"));
    assert_eq!(sent.values(&[]), Ok([]));
    for (raw, sent) in [
        ("%", "%"),
        ("a=%f", "a=%f"),
        ("a=1&b%ff=2", "b%ff=2"),
        ("x=%C3&y=%", "x=%C3"),
        ("key=im_live%_a", "key=…"),
        ("a=im_live_a%", "…"),
    ] {
        let message = format!("the query string must be percent-encoded UTF-8, got \"{sent}\"");
        let bad = Err(RouteError::BadRequest(message));
        assert_eq!(Query::split(Some(raw)).values::<0>(&[]), bad, "{raw}");
    }
}
