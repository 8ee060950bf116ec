//! The query parameters of the two lists, a row each.
//!
//! The parser, links, the selection of rows, the form of the page, the `OpenAPI` document and random tests follow the
//! rows. A row of a new kind needs its parser in `lists.rs`, its condition in `snapshot/condition.rs`, its schema in
//! `site/openapi.rs`, and its field in `site/data_pages.rs`.

use crate::model::{CreatedIn, SortField, SortOrder};

pub const SORT_DEFAULT: SortField = SortField::PeakCcu;
pub const ORDER_DEFAULT: SortOrder = SortOrder::Desc;
pub const LIMIT_DEFAULT: u32 = 50;
/// Maximum rows per page (SPEC section 4).
pub const LIMIT_MAX: u32 = 200;

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// The label of its field in the form of the page. A filter without one stays as it is when the form is sent.
    pub label: Option<&'static str>,
    /// The words before its value where a page names its filters.
    pub words: &'static str,
    /// Its description in the `OpenAPI` document.
    pub description: &'static str,
    pub example: &'static str,
}

/// The meaning of a parameter and of its values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Rows in the group with this name. An empty text is no filter.
    Group(Grouping),
    /// Rows in one of a few groups, which have these names and others on pages.
    Choice {
        grouping: Grouping,
        names: &'static [(&'static str, &'static str)],
        /// The schema of the names in the `OpenAPI` document.
        schema: &'static str,
    },
    /// Rows whose title or slug contains the text, both folded. An empty text is no filter.
    Search,
    /// Rows whose count is known and is at least the value.
    AtLeast(SortField),
    /// Rows whose count is known and is at most the value.
    AtMost(SortField),
    Sort,
    Order,
    Limit,
    Offset,
}

/// The ways in which islands are grouped. An island may be in no group, and have several tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    Tag,
    /// By the slug of the creator.
    Creator,
    CreatedIn,
}

impl Grouping {
    /// All values, by number.
    pub const ALL: &[Grouping] = &[Grouping::Tag, Grouping::Creator, Grouping::CreatedIn];
}

/// The parameters of the list of islands, in the order of links.
pub const ISLAND_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "tag",
        kind: Kind::Group(Grouping::Tag),
        label: Some("Tag"),
        words: "with the tag",
        description: "Only islands with this genre tag. The tag must match exactly, including case.",
        example: "pvp",
    },
    Parameter {
        name: "creator",
        kind: Kind::Group(Grouping::Creator),
        label: None,
        words: "by",
        description: "Only islands of the creator with this slug. The slug must match exactly, including case.",
        example: "ruby.gg65",
    },
    Parameter {
        name: "createdIn",
        kind: Kind::Choice {
            grouping: Grouping::CreatedIn,
            names: &[
                (CreatedIn::Uefn.as_str(), "UEFN"),
                (CreatedIn::Creative.as_str(), "Creative"),
            ],
            schema: "CreatedIn",
        },
        label: Some("Made with"),
        words: "made with",
        description: "Only islands made with this tool. By default, islands of all tools, including those whose tool \
            is not known.",
        example: "uefn",
    },
    Parameter {
        name: "q",
        kind: Kind::Search,
        label: Some("Title or code"),
        words: "with a title that contains",
        description: "Only islands whose title contains this text. Case is ignored. A letter matches in either case \
            wherever it is in a word: `strasse` finds `Straße`, `οδυσ` finds `ΟΔΥΣΣΕΑΣ`. Codes are not searched. At \
            most 1,024 bytes.",
        example: "sky",
    },
    Parameter {
        name: "sort",
        kind: Kind::Sort,
        label: None,
        words: "",
        description: "The metric to sort by.",
        example: "peakCCU",
    },
    Parameter {
        name: "order",
        kind: Kind::Order,
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
        kind: Kind::Search,
        label: None,
        words: "",
        description: "Only creators whose slug contains this text. Case is ignored. At most 1,024 bytes.",
        example: "ruby",
    },
    LIMIT,
    OFFSET,
];

const LIMIT: Parameter = Parameter {
    name: "limit",
    kind: Kind::Limit,
    label: None,
    words: "",
    description: "The number of rows on a page.",
    example: "50",
};

const OFFSET: Parameter = Parameter {
    name: "offset",
    kind: Kind::Offset,
    label: None,
    words: "",
    description: "The number of rows to skip.",
    example: "0",
};

pub(super) const ISLAND_NAMES: &[&str] = &names::<{ ISLAND_PARAMETERS.len() }>(ISLAND_PARAMETERS);
pub(super) const CREATOR_NAMES: &[&str] =
    &names::<{ CREATOR_PARAMETERS.len() }>(CREATOR_PARAMETERS);

const fn names<const LEN: usize>(parameters: &[Parameter]) -> [&'static str; LEN] {
    let mut names = [""; LEN];
    let mut at = 0;
    while at < LEN {
        names[at] = parameters[at].name;
        at += 1;
    }
    names
}
