//! The query parameters of the two lists, a row each.
//!
//! The parser, links, the selection of rows, the form of the page, the `OpenAPI` document and random tests follow the
//! rows. A row says what a parameter does; its kind says which values it accepts. A kind has its parser in `lists.rs`,
//! its schema in `site/openapi.rs`, and its field in `site/data_pages.rs`.

use super::lists::{
    Filter, Grouping, Kind, LIMIT_MAX, ORDER_DEFAULT, Parameter, SEARCH_BYTES_MAX, SORT_DEFAULT,
};
use crate::model::{CreatedIn, SortField, SortOrder};

/// The parameters of the list of islands, in the order of links.
pub const ISLAND_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "tag",
        kind: Kind::Text {
            bytes_max: usize::MAX,
            is_tag: true,
            filter: |tag| Filter::group(Grouping::Tag, tag),
        },
        default: None,
        label: Some("Tag"),
        words: "with the tag",
        description: "Only islands with this genre tag. The tag must match exactly, including case.",
        example: "pvp",
    },
    Parameter {
        name: "creator",
        kind: Kind::Text {
            bytes_max: usize::MAX,
            is_tag: false,
            filter: |slug| Filter::group(Grouping::Creator, slug),
        },
        default: None,
        label: None,
        words: "by",
        description: "Only islands of the creator with this slug. The slug must match exactly, including case.",
        example: "ruby.gg65",
    },
    Parameter {
        name: "createdIn",
        kind: Kind::Name {
            names: &CreatedIn::NAMES,
            texts: &["UEFN", "Creative"],
            schema: "CreatedIn",
            set: |_, name| Some(Filter::group(Grouping::CreatedIn, name)),
        },
        default: None,
        label: Some("Made with"),
        words: "made with",
        description: "Only islands made with this tool. By default, islands of all tools, including those whose tool \
            is not known.",
        example: "uefn",
    },
    Parameter {
        name: "q",
        kind: SEARCH,
        default: None,
        label: Some("Title or code"),
        words: "with a title that contains",
        description: "Only islands whose title contains this text. Case is ignored. A letter matches in either case \
            wherever it is in a word: `strasse` finds `Straße`, `οδυσ` finds `ΟΔΥΣΣΕΑΣ`. Codes are not searched. At \
            most 1,024 bytes.",
        example: "sky",
    },
    Parameter {
        name: "sort",
        kind: Kind::Name {
            names: &SortField::NAMES,
            texts: &[],
            schema: "SortField",
            set: |query, name| {
                query.sort = SortField::parse(name)?;
                None
            },
        },
        default: Some(SORT_DEFAULT.as_str()),
        label: None,
        words: "",
        description: "The metric to sort by.",
        example: "peakCCU",
    },
    Parameter {
        name: "order",
        kind: Kind::Name {
            names: &SortOrder::NAMES,
            texts: &[],
            schema: "SortOrder",
            set: |query, name| {
                query.order = SortOrder::parse(name)?;
                None
            },
        },
        default: Some(ORDER_DEFAULT.as_str()),
        label: None,
        words: "",
        description: "The sort direction.",
        example: "desc",
    },
    LIMIT,
    OFFSET,
];

/// The parameters of the list of creators, in the order of links.
pub const CREATOR_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "q",
        kind: SEARCH,
        default: None,
        label: None,
        words: "",
        description: "Only creators whose slug contains this text. Case is ignored. At most 1,024 bytes.",
        example: "ruby",
    },
    LIMIT,
    OFFSET,
];

const SEARCH: Kind = Kind::Text {
    bytes_max: SEARCH_BYTES_MAX,
    is_tag: false,
    filter: Filter::search,
};

const LIMIT: Parameter = Parameter {
    name: "limit",
    kind: Kind::Integer {
        range: (1, LIMIT_MAX as u64),
        set: |query, limit| {
            query.page.limit = u32::try_from(limit).ok()?;
            None
        },
    },
    default: Some("50"),
    label: None,
    words: "",
    description: "The number of rows on a page.",
    example: "50",
};

const OFFSET: Parameter = Parameter {
    name: "offset",
    kind: Kind::Integer {
        range: (0, u64::MAX),
        set: |query, offset| {
            query.page.offset = offset;
            None
        },
    },
    default: Some("0"),
    label: None,
    words: "",
    description: "The number of rows to skip.",
    example: "0",
};
