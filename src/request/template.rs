//! `Template`: which path was asked for, without its parameters. There are few, so metrics can have
//! one series for each.

use super::{Outside, Route, SiteFile};

/// A path with its parameters left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// `/v1`
    Index,
    /// `/v1/health`
    Health,
    /// `/v1/islands`
    Islands,
    /// `/v1/islands/{code}`
    Island,
    /// `/v1/islands/{code}/ccu`
    IslandCcu,
    /// `/v1/creators`
    Creators,
    /// `/v1/creators/{slug}`
    Creator,
    /// `/v1/live`
    Live,
    /// `/v1/live/intraday`
    Intraday,
    /// `/v1/rankings`
    RankingDays,
    /// `/v1/rankings/{date}`
    Ranking,
    /// `/v1/new`
    NewDays,
    /// `/v1/new/{date}`
    New,
    /// `/openapi.json`
    OpenApi,
    /// `/`, with a question or without
    Home,
    /// `/islands/{code}`
    IslandPage,
    /// `/keys`
    Keys,
    /// `/docs`
    Docs,
    /// `/objects`
    Objects,
    /// `/recipes`
    Recipes,
    /// `/gotchas`
    Gotchas,
    /// `/llms.txt`
    Llms,
    /// `/assets/{name}`
    Asset,
    /// `/dumps/{name}`
    Dump,
    /// Any other path.
    Unknown,
}

impl Template {
    /// The texts of all templates, in the order of their numbers.
    pub const TEXTS: [&'static str; 25] = [
        "/v1",
        "/v1/health",
        "/v1/islands",
        "/v1/islands/{code}",
        "/v1/islands/{code}/ccu",
        "/v1/creators",
        "/v1/creators/{slug}",
        "/v1/live",
        "/v1/live/intraday",
        "/v1/rankings",
        "/v1/rankings/{date}",
        "/v1/new",
        "/v1/new/{date}",
        "/openapi.json",
        "/",
        "/islands/{code}",
        "/keys",
        "/docs",
        "/objects",
        "/recipes",
        "/gotchas",
        "/llms.txt",
        "/assets/{name}",
        "/dumps/{name}",
        "unknown",
    ];

    /// The template's text.
    pub const fn text(self) -> &'static str {
        Template::TEXTS[self as usize]
    }

    /// Whether requests for it spend quota, as a rule.
    pub const fn is_metered(self) -> bool {
        (self as usize) < Template::OpenApi as usize && (self as usize) != Template::Health as usize
    }

    /// That of a path of which nothing else could be understood: by its plain words alone.
    pub fn of_path(path: &str) -> Template {
        let Some(rest) = path.strip_prefix('/') else {
            return Template::Unknown;
        };
        let mut segments = rest.split('/');
        let segments: [Option<&str>; 5] = std::array::from_fn(|_| segments.next());
        match segments {
            [Some("v1"), None, ..] => Template::Index,
            [Some("v1"), Some(name), None, ..] => match name {
                "health" => Template::Health,
                "islands" => Template::Islands,
                "creators" => Template::Creators,
                "live" => Template::Live,
                "rankings" => Template::RankingDays,
                "new" => Template::NewDays,
                _ => Template::Unknown,
            },
            [Some("v1"), Some(name), Some(_), None, _] => match name {
                "islands" => Template::Island,
                "creators" => Template::Creator,
                "rankings" => Template::Ranking,
                "new" => Template::New,
                _ if path == "/v1/live/intraday" => Template::Intraday,
                _ => Template::Unknown,
            },
            [Some("v1"), Some("islands"), Some(_), Some("ccu"), None] => Template::IslandCcu,
            [Some("dumps"), Some(_), ..] => Template::Dump,
            [Some("openapi.json"), None, ..] => Template::OpenApi,
            [Some(""), None, ..] => Template::Home,
            [Some("islands"), Some(_), None, ..] => Template::IslandPage,
            [Some("keys"), None, ..] => Template::Keys,
            [Some("docs"), None, ..] => Template::Docs,
            [Some("objects"), None, ..] => Template::Objects,
            [Some("recipes"), None, ..] => Template::Recipes,
            [Some("gotchas"), None, ..] => Template::Gotchas,
            [Some("llms.txt"), None, ..] => Template::Llms,
            [Some("assets"), Some(_), None, ..] => Template::Asset,
            _ => Template::Unknown,
        }
    }
}

impl Route {
    /// The route without its parameters.
    pub const fn template(&self) -> Template {
        match self {
            Route::Index => Template::Index,
            Route::Health => Template::Health,
            Route::Islands(_) => Template::Islands,
            Route::Island(_) => Template::Island,
            Route::IslandCcu(_) => Template::IslandCcu,
            Route::Creators(_) => Template::Creators,
            Route::Creator(_) => Template::Creator,
            Route::Live => Template::Live,
            Route::Intraday => Template::Intraday,
            Route::RankingDays => Template::RankingDays,
            Route::Ranking(_) => Template::Ranking,
            Route::NewDays => Template::NewDays,
            Route::New(_) => Template::New,
            Route::Outside(outside) => outside.template(),
        }
    }
}

impl Outside {
    const fn template(&self) -> Template {
        match self {
            Outside::OpenApi => Template::OpenApi,
            Outside::Docs => Template::Docs,
            Outside::Home | Outside::Search(_) => Template::Home,
            Outside::Island(_) => Template::IslandPage,
            Outside::Keys => Template::Keys,
            Outside::Dump(_) => Template::Dump,
            Outside::Site(SiteFile::Objects) => Template::Objects,
            Outside::Site(SiteFile::Recipes) => Template::Recipes,
            Outside::Site(SiteFile::Gotchas) => Template::Gotchas,
            Outside::Site(SiteFile::Llms) => Template::Llms,
            Outside::Site(_) => Template::Asset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn every_route_has_the_template_that_its_path_is_written_after() {
        for text in &Template::TEXTS[..Template::Unknown as usize] {
            let path = text
                .replace("{code}", "0000-0000-0001")
                .replace("{date}", "latest")
                .replace("{slug}", "a-b")
                .replace("/assets/{name}", "/assets/style.css")
                .replace("{name}", "islands.csv");
            let route = parse(&path, None).route.unwrap();
            assert_eq!(route.template().text(), *text);
            assert_eq!(Template::of_path(&path).text(), *text);
        }
    }

    #[test]
    fn a_path_that_is_refused_has_the_template_of_its_words() {
        for (path, template) in [
            ("/v1/islands/12", Template::Island),
            ("/v1/islands/12/ccu", Template::IslandCcu),
            ("/v1/rankings/yesterday", Template::Ranking),
            ("/v1/new/", Template::New),
            ("/v1/nothing", Template::Unknown),
            ("/v1/live/x", Template::Unknown),
            ("/v1/islands/1/ccu/2", Template::Unknown),
            ("/assets/x", Template::Asset),
            ("*", Template::Unknown),
            ("", Template::Unknown),
            ("//", Template::Unknown),
            ("/x", Template::Unknown),
            ("/dumps/a/b/c/d/e", Template::Dump),
        ] {
            assert_eq!(Template::of_path(path), template, "{path}");
        }
    }
}
